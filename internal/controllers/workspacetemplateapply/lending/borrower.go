// Package lending reconciles borrowers: workspaces that use what another namespace lends. A
// workspace in that namespace, which is lent, runs for each of them.
package lending

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Borrower is a workspace that another one runs for.
type Borrower struct {
	*sources.Resolved
	// lent is the workspace that runs for this one.
	lent *infrav1.WorkspaceTemplateApply
	// operationsExpire is the time until the next operation is deleted, or 0.
	operationsExpire time.Duration
}

// Reconciler reconciles borrowers.
type Reconciler struct {
	*runs.Store
	Resolver    *sources.Resolver
	Publisher   *history.Publisher
	Cleaner     *cleanup.Cleaner
	Tracker     *sources.Tracker
	WatchFilter string
	Recorder    events.EventRecorder
	Now         func() time.Time
}

// Frame returns the steps of a borrower.
func (r *Reconciler) Frame() *reconcile.Frame[*infrav1.WorkspaceTemplateApply, Borrower] {
	requests := reconcile.Step[Borrower]{Run: r.requests, RequeueAfter: func(s *Borrower) time.Duration { return s.operationsExpire }}
	return &reconcile.Frame[*infrav1.WorkspaceTemplateApply, Borrower]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateApplyFinalizer,
		Scope: func(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*Borrower, error) {
			w := &runs.Workspace{Apply: apply, Now: r.Now()}
			return &Borrower{Resolved: &sources.Resolved{Workspace: w}}, r.ReadRequests(ctx, w)
		},
		Steps: []reconcile.Step[Borrower]{
			requests,
			{Condition: infrav1.DependenciesReadyCondition, Run: r.lend},
			{Condition: infrav1.InputsValidCondition, Run: lentCondition(infrav1.InputsValidCondition)},
			{Run: r.approval},
			{Condition: infrav1.NoDriftCondition, Run: lentCondition(infrav1.NoDriftCondition), Skip: driftNotReported, Informational: true},
			{Condition: infrav1.AppliedCondition, Run: lentCondition(infrav1.AppliedCondition), Message: func(s *Borrower) string { return history.AppliedMessage(s.Apply) }},
			{Condition: infrav1.OutputsWrittenCondition, Run: r.outputs, Message: func(s *Borrower) string { return history.OutputsMessage(s.Apply) }},
		},
		Delete: []reconcile.Step[Borrower]{
			requests,
			{Condition: infrav1.DestroyedCondition, Run: r.dismiss},
			{Run: r.cleanUp},
		},
		Paused:       r.pause,
		OnTransition: reconcile.Announce[*infrav1.WorkspaceTemplateApply, Borrower](r.Recorder, history.TransitionEvents),
	}
}

// requests ends the operations that the workspace which runs for this one does not execute, and
// deletes those that ended long ago.
func (r *Reconciler) requests(ctx context.Context, s *Borrower) error {
	for _, o := range s.Requests.Operations {
		if o.Ended() || runs.MayBorrow(o) {
			continue
		}
		why := fmt.Sprintf("Workspace %s runs for this one, and its users decide about its state: ask them to create this operation there", lentKey(s.Apply, lenderNamespace(s.Apply)))
		if err := runs.SetOperation(ctx, r.Client, o, runs.EndedOperation(o, infrav1.OperationFailed, why, s.Now)); err != nil {
			return err
		}
	}
	next, err := r.CleanRequests(ctx, s.Workspace)
	s.operationsExpire = next
	return err
}

func (r *Reconciler) approval(_ context.Context, s *Borrower) error {
	history.RecordApproval(r.Recorder, s.Workspace)
	return nil
}

// IsBorrower reports whether a workspace runs in another namespace. It does if its template
// is there and brings a provider config along, and it has no provider config of its own.
// What was decided with the first run stays: the state does not move.
func (r *Reconciler) IsBorrower(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	switch borrower, _ := apply.HostedFor(); {
	case apply.Status.Runs > 0 || borrower != "":
		return false, nil
	case runs.RecordedLender(apply) != "":
		return true, nil
	case apply.Annotations[infrav1.StateLineageAnnotation] != "":
		// It has a state of its own. After a move its Secrets may not exist yet.
		return false, nil
	case r.Resolver.Grants == nil || r.Resolver.Grants.Denied || key.Namespace == apply.Namespace || apply.Spec.ProviderConfigRef != nil:
		return false, nil
	}
	known := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if found, err := r.exists(ctx, key, known.Template); err != nil || !found {
		return false, err
	}
	shared := sources.SharedConfigKey(&known)
	if shared == nil {
		return false, nil
	}
	if found, err := r.exists(ctx, lentKey(apply, key.Namespace), &infrav1.WorkspaceTemplateApply{}); err != nil || found {
		return found, err
	}
	if ran, err := r.hasRun(ctx, apply); err != nil || ran {
		return false, err
	}
	own := client.ObjectKey{Namespace: apply.Namespace, Name: shared.Name}
	if found, err := r.exists(ctx, own, &infrav1.WorkspaceProviderConfig{}); err != nil || found {
		return false, err
	}
	return r.exists(ctx, *shared, &infrav1.WorkspaceProviderConfig{})
}

func (r *Reconciler) exists(ctx context.Context, key client.ObjectKey, obj client.Object) (bool, error) {
	err := r.Client.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return err == nil, nil
}

// lenderNamespace returns the namespace in which a borrower runs.
func lenderNamespace(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(runs.RecordedLender(apply), apply.Spec.TemplateRef.Key(apply.Namespace).Namespace)
}

// forgetLender lets a borrower start with an empty state. The user asks for it by removing the
// annotation. It has no effect while the workspace exists that has the state.
func (r *Reconciler) forgetLender(ctx context.Context, s *Borrower) error {
	status := &s.Apply.Status
	if status.Host == nil || s.Apply.Annotations[infrav1.HostedInAnnotation] != "" {
		return nil
	}
	key := client.ObjectKey{Namespace: status.Host.Namespace, Name: status.Host.Name}
	switch err := r.Reader.Get(ctx, key, &infrav1.WorkspaceTemplateApply{}); {
	case err == nil:
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading workspace %s: %w", key, err)
	}
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{
		Conditions: status.Conditions, ObservedGeneration: status.ObservedGeneration, ConnectionSecretName: status.ConnectionSecretName,
	}
	return fault.WaitFor(time.Second, infrav1.WaitingForWorkspaceReason, "Starting with an empty state, because workspace %s does not exist and the annotation %s was removed", key, infrav1.HostedInAnnotation)
}

// hasRun reports whether a workspace has run in its own namespace, according to its Secrets.
// Its status may be lost, and its provider config not restored yet.
func (r *Reconciler) hasRun(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingFields{runs.WorkspaceIndex: record.LabelValue(apply.Name)})
	if err != nil {
		return false, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(secret corev1.Secret) bool {
		return slices.Contains([]string{record.ComponentRun, record.ComponentState, record.ComponentSnapshot}, secret.Labels[infrav1.ComponentLabel])
	}), nil
}

// lend waits for what a borrower depends on, and ensures that the workspace that runs
// for it is as it should be.
func (r *Reconciler) lend(ctx context.Context, s *Borrower) error {
	if err := r.forgetLender(ctx, s); err != nil {
		return err
	}
	lender := lenderNamespace(s.Apply)
	refs := append(sources.WithGrants(s.Apply.Namespace, sources.References(s.Apply)), sources.Reference{Kind: "WorkspaceTemplateApply", Key: lentKey(s.Apply, lender)})
	r.Tracker.Set(s.Name(), refs)
	if err := r.Resolver.ReadTemplate(ctx, s.Resolved); err != nil {
		return err
	}
	shared := sources.SharedConfigKey(&s.Sources)
	if shared == nil || shared.Namespace != lender {
		return fault.Stall(infrav1.BackendChangedReason, "The state of this workspace is in namespace %s, where workspace %s runs for it: use a template of that namespace that has a providerConfigRef, and remove spec.providerConfigRef", lender, lentKey(s.Apply, lender).Name)
	}
	r.Tracker.Set(s.Name(), append(refs, sources.Reference{Kind: "WorkspaceProviderConfig", Key: *shared}))
	if err := r.Resolver.Grants.Check(ctx, s.Apply.Namespace, infrav1.GrantedWorkspaceProviderConfig, *shared); err != nil {
		return err
	}
	if sources.WaitsForOthers(s.Apply) {
		if err := r.Resolver.WaitForWorkspaces(ctx, s.Workspace); err != nil {
			return err
		}
		if err := r.Resolver.WaitForSecrets(ctx, s.Workspace); err != nil {
			return err
		}
	}
	var err error
	if s.lent, err = r.ensureLent(ctx, s.Apply, lender, false); err != nil {
		return err
	}
	s.mirror()
	return lentCondition(infrav1.DependenciesReadyCondition)(ctx, s)
}

// mirror copies the status of the workspace that runs for a borrower. The number of runs
// stays zero: the borrower has none.
func (s *Borrower) mirror() {
	status, own := s.lent.Status.DeepCopy(), &s.Apply.Status
	status.Conditions, status.ObservedGeneration, status.ConnectionSecretName = own.Conditions, own.ObservedGeneration, own.ConnectionSecretName
	status.Runs, status.Host, status.HostDeletedAt, status.DeletedBy = 0, own.Host, own.HostDeletedAt, own.DeletedBy
	if status.Plan != nil && own.Plan != nil && own.Plan.ID == status.Plan.ID {
		// It is the approval of the borrower that counts, which the next step reads.
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = own.Plan.ApprovedBy, own.Plan.ApprovedAt, own.Plan.Comment
	} else if status.Plan != nil {
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = "", nil, ""
	}
	s.Apply.Status = *status
}

// driftNotReported reports whether the workspace that runs for the borrower has reported neither
// drift nor its absence since it was changed.
func driftNotReported(s *Borrower) bool {
	c := meta.FindStatusCondition(s.lent.Status.Conditions, infrav1.NoDriftCondition)
	return c == nil || c.ObservedGeneration != s.lent.Generation
}

// lentCondition returns a step that has the result of a condition of the workspace that runs for
// the borrower.
func lentCondition(condition string) func(context.Context, *Borrower) error {
	return func(_ context.Context, s *Borrower) error {
		c := meta.FindStatusCondition(s.lent.Status.Conditions, condition)
		switch {
		case c == nil || c.ObservedGeneration != s.lent.Generation:
			return fault.Wait(infrav1.RunInProgressReason, "Waiting for workspace %s", client.ObjectKeyFromObject(s.lent))
		case c.Status == "True":
			return nil
		case c.Status == "False":
			return fault.Wait(c.Reason, "%s", c.Message)
		default:
			return fault.Unknown(0, c.Reason, "%s", c.Message)
		}
	}
}

// outputs copies the outputs into the connection Secret of the borrower.
func (r *Reconciler) outputs(ctx context.Context, s *Borrower) error {
	if err := lentCondition(infrav1.OutputsWrittenCondition)(ctx, s); err != nil {
		return err
	}
	name, err := template.ConnectionSecretName(s.Sources)
	if err != nil {
		return sources.InputsFault(err)
	}
	s.Apply.Status.ConnectionSecretName = name
	if name == "" {
		return nil
	}
	data, err := r.lentOutputs(ctx, s.lent)
	if err != nil {
		return err
	}
	s.Inputs = &template.Inputs{ConnectionSecret: name, Request: terraform.Request{
		Workspace: s.Ref(),
	}}
	return r.Publisher.WriteConnection(ctx, s.Resolved, data)
}

// recordDismissal records that the workspace that runs for this one is deleted now. It is
// stored before the deletion: a lender that does not exist afterwards has destroyed the
// resources, and one that did not exist before has not.
func (r *Reconciler) recordDismissal(ctx context.Context, s *Borrower) error {
	if !s.Apply.Status.HostDeletedAt.IsZero() {
		return nil
	}
	deleted := metav1.NewTime(s.Now.Truncate(time.Second))
	if err := r.RecordAtOnce(ctx, s.Workspace, fmt.Sprintf(`{"hostDeletedAt":%q}`, deleted.UTC().Format(time.RFC3339))); err != nil {
		return fmt.Errorf("recording the deletion of the workspace that runs for this one: %w", err)
	}
	s.Apply.Status.HostDeletedAt = deleted
	return nil
}

// dismiss deletes the workspace that runs for a borrower, which destroys its resources.
func (r *Reconciler) dismiss(ctx context.Context, s *Borrower) error {
	if err := cleanup.WaitForOwner(ctx, r.Reader, s.Apply); err != nil {
		return err
	}
	lender := lenderNamespace(s.Apply)
	r.Tracker.Set(s.Name(), []sources.Reference{{Kind: "WorkspaceTemplateApply", Key: lentKey(s.Apply, lender)}})
	if _, err := r.readLent(ctx, s.Apply, lender); err != nil {
		if client.IgnoreNotFound(err) == nil && runs.RecordedLender(s.Apply) != "" && s.Apply.Status.HostDeletedAt.IsZero() && !s.Apply.Spec.RetainWorkspaceOnDelete {
			return fault.Stall(infrav1.StateMissingReason, "Workspace %s, which has the state of this one, does not exist, so nothing was destroyed: restore or move it, or set retainWorkspaceOnDelete to leave the resources to you",
				lentKey(s.Apply, lender))
		}
		return client.IgnoreNotFound(err)
	}
	// What was read belongs to this borrower, and not to the next one of its name.
	if err := r.EnsureExists(ctx, s.Workspace); err != nil {
		return err
	}
	// It may have to retain the resources, or a plan was approved.
	found, err := r.ensureLent(ctx, s.Apply, lender, false)
	if err != nil {
		return err
	}
	if err := r.EnsureExists(ctx, s.Workspace); err != nil {
		return err
	}
	if err := r.recordDismissal(ctx, s); err != nil {
		return err
	}
	if found.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID})); err != nil {
			return fmt.Errorf("deleting workspace %s: %w", client.ObjectKeyFromObject(found), err)
		}
	}
	s.lent = found
	s.mirror()
	if c := meta.FindStatusCondition(found.Status.Conditions, infrav1.DestroyedCondition); c != nil && c.Status != "True" {
		return fault.Wait(c.Reason, "%s", c.Message)
	}
	return fault.Wait(infrav1.RunInProgressReason, "Waiting for the deletion of workspace %s", client.ObjectKeyFromObject(found))
}

// cleanUp deletes or releases the connection Secret.
func (r *Reconciler) cleanUp(ctx context.Context, s *Borrower) error {
	cleanUp := r.Cleaner.DeleteSecrets
	if s.Apply.Spec.RetainWorkspaceOnDelete {
		cleanUp = r.ReleaseSecrets
	}
	if err := cleanUp(ctx, s.Workspace, runs.ComponentConnection); err != nil {
		return err
	}
	if err := r.DeleteRequests(ctx, s.Workspace); err != nil {
		return err
	}
	r.Tracker.Set(s.Name(), nil)
	return nil
}

// pause pauses the workspace that runs for a borrower that is paused.
func (r *Reconciler) pause(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	lender := lenderNamespace(apply)
	if _, err := r.readLent(ctx, apply, lender); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	_, err := r.ensureLent(ctx, apply, lender, true)
	return 0, err
}
