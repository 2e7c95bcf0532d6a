package workspacetemplateapply

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
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// borrower is a workspace that another one runs for.
type borrower struct {
	*resolved
	// lent is the workspace that runs for this one.
	lent *infrav1.WorkspaceTemplateApply
}

// lender reconciles borrowers.
type lender struct {
	*store
	resolver    *resolver
	publisher   *publisher
	cleaner     *cleaner
	tracker     *tracker
	WatchFilter string
	Recorder    events.EventRecorder
	Now         func() time.Time
}

// frame returns the steps of a borrower.
func (r *lender) frame() *reconcile.Frame[*infrav1.WorkspaceTemplateApply, borrower] {
	return &reconcile.Frame[*infrav1.WorkspaceTemplateApply, borrower]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateApplyFinalizer,
		Scope: func(_ context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*borrower, error) {
			return &borrower{resolved: &resolved{workspace: &workspace{apply: apply, now: r.Now()}}}, nil
		},
		Steps: []reconcile.Step[borrower]{
			{Condition: infrav1.DependenciesReadyCondition, Run: r.lend},
			{Condition: infrav1.InputsValidCondition, Run: lentCondition(infrav1.InputsValidCondition)},
			{Run: r.approval},
			{Condition: infrav1.NoDriftCondition, Run: lentCondition(infrav1.NoDriftCondition), Skip: driftNotReported, Informational: true},
			{Condition: infrav1.AppliedCondition, Run: lentCondition(infrav1.AppliedCondition), Message: func(s *borrower) string { return appliedMessage(s.apply) }},
			{Condition: infrav1.OutputsWrittenCondition, Run: r.outputs, Message: func(s *borrower) string { return outputsMessage(s.apply) }},
		},
		Delete: []reconcile.Step[borrower]{
			{Condition: infrav1.DestroyedCondition, Run: r.dismiss},
			{Run: r.cleanUp},
		},
		Paused: r.pause,
		OnTransition: func(_ context.Context, _ *borrower, apply *infrav1.WorkspaceTemplateApply, previous, current metav1.Condition) {
			transitionEvents.Record(r.Recorder, apply, previous, current)
		},
	}
}

func (r *lender) approval(_ context.Context, s *borrower) error {
	recordApproval(r.Recorder, s.apply)
	return nil
}

// isBorrower reports whether a workspace runs in another namespace. It does if its template
// is there and brings a provider config along, and it has no provider config of its own.
// What was decided with the first run stays: the state does not move.
func (r *lender) isBorrower(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	switch borrower, _ := apply.HostedFor(); {
	case apply.Status.Runs > 0 || borrower != "":
		return false, nil
	case recordedLender(apply) != "":
		return true, nil
	case apply.Annotations[infrav1.StateLineageAnnotation] != "":
		// It has a state of its own. After a move its Secrets may not exist yet.
		return false, nil
	case r.resolver.Grants == nil || r.resolver.Grants.Denied || key.Namespace == apply.Namespace || apply.Spec.ProviderConfigRef != nil:
		return false, nil
	}
	sources := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if found, err := r.exists(ctx, key, sources.Template); err != nil || !found {
		return false, err
	}
	shared := sharedConfigKey(&sources)
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

func (r *lender) exists(ctx context.Context, key client.ObjectKey, obj client.Object) (bool, error) {
	err := r.Client.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return err == nil, nil
}

// recordedLender returns the namespace in which a borrower runs since its first run, or an empty
// string. Only the manager writes the status. It is lost in a move to another management
// cluster, and then the annotation counts.
func recordedLender(apply *infrav1.WorkspaceTemplateApply) string {
	if lender := apply.Status.Host; lender != nil {
		return lender.Namespace
	}
	return apply.Annotations[infrav1.HostedInAnnotation]
}

// lenderNamespace returns the namespace in which a borrower runs.
func lenderNamespace(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(recordedLender(apply), apply.Spec.TemplateRef.Key(apply.Namespace).Namespace)
}

// forgetLender lets a borrower start with an empty state. The user asks for it by removing the
// annotation. It has no effect while the workspace exists that has the state.
func (r *lender) forgetLender(ctx context.Context, s *borrower) error {
	status := &s.apply.Status
	if status.Host == nil || s.apply.Annotations[infrav1.HostedInAnnotation] != "" {
		return nil
	}
	key := client.ObjectKey{Namespace: status.Host.Namespace, Name: status.Host.Name}
	switch err := r.Reader.Get(ctx, key, &infrav1.WorkspaceTemplateApply{}); {
	case err == nil:
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading workspace %s: %w", key, err)
	}
	s.apply.Status = infrav1.WorkspaceTemplateApplyStatus{
		Conditions: status.Conditions, ObservedGeneration: status.ObservedGeneration, ConnectionSecretName: status.ConnectionSecretName,
	}
	return fault.WaitFor(time.Second, infrav1.WaitingForWorkspaceReason, "Starting with an empty state, because workspace %s does not exist and the annotation %s was removed", key, infrav1.HostedInAnnotation)
}

// hasRun reports whether a workspace has run in its own namespace, according to its Secrets.
// Its status may be lost, and its provider config not restored yet.
func (r *lender) hasRun(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingFields{workspaceIndex: record.LabelValue(apply.Name)})
	if err != nil {
		return false, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(secret corev1.Secret) bool {
		return slices.Contains([]string{record.ComponentRun, record.ComponentState, record.ComponentSnapshot}, secret.Labels[infrav1.ComponentLabel])
	}), nil
}

// lend waits for what a borrower depends on, and ensures that the workspace that runs
// for it is as it should be.
func (r *lender) lend(ctx context.Context, s *borrower) error {
	if err := r.forgetLender(ctx, s); err != nil {
		return err
	}
	lender := lenderNamespace(s.apply)
	refs := append(withGrants(s.apply.Namespace, references(s.apply)), reference{"WorkspaceTemplateApply", lentKey(s.apply, lender)})
	r.tracker.set(s.name(), refs)
	if err := r.resolver.readTemplate(ctx, s.resolved); err != nil {
		return err
	}
	shared := sharedConfigKey(&s.sources)
	if shared == nil || shared.Namespace != lender {
		return fault.Stall(infrav1.BackendChangedReason, "The state of this workspace is in namespace %s, where workspace %s runs for it: use a template of that namespace that has a providerConfigRef, and remove spec.providerConfigRef", lender, lentKey(s.apply, lender).Name)
	}
	r.tracker.set(s.name(), append(refs, reference{"WorkspaceProviderConfig", *shared}))
	if err := r.resolver.Grants.Check(ctx, s.apply.Namespace, infrav1.GrantedWorkspaceProviderConfig, *shared); err != nil {
		return err
	}
	if waitsForOthers(s.apply) {
		if err := r.resolver.waitForWorkspaces(ctx, s.workspace); err != nil {
			return err
		}
		if err := r.resolver.waitForSecrets(ctx, s.workspace); err != nil {
			return err
		}
	}
	var err error
	if s.lent, err = r.ensureLent(ctx, s.apply, lender, false); err != nil {
		return err
	}
	s.mirror()
	return lentCondition(infrav1.DependenciesReadyCondition)(ctx, s)
}

// mirror copies the status of the workspace that runs for a borrower. The number of runs
// stays zero: the borrower has none.
func (s *borrower) mirror() {
	status, own := s.lent.Status.DeepCopy(), &s.apply.Status
	status.Conditions, status.ObservedGeneration, status.ConnectionSecretName = own.Conditions, own.ObservedGeneration, own.ConnectionSecretName
	status.Runs, status.Host, status.HostDeletedAt, status.DeletedBy = 0, own.Host, own.HostDeletedAt, own.DeletedBy
	if status.Plan != nil && own.Plan != nil && own.Plan.ID == status.Plan.ID {
		// It is the approval of the borrower that counts, which the next step reads.
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = own.Plan.ApprovedBy, own.Plan.ApprovedAt, own.Plan.Comment
	} else if status.Plan != nil {
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = "", nil, ""
	}
	s.apply.Status = *status
}

// driftNotReported reports whether the workspace that runs for the borrower has reported neither
// drift nor its absence since it was changed.
func driftNotReported(s *borrower) bool {
	c := meta.FindStatusCondition(s.lent.Status.Conditions, infrav1.NoDriftCondition)
	return c == nil || c.ObservedGeneration != s.lent.Generation
}

// lentCondition returns a step that has the result of a condition of the workspace that runs for
// the borrower.
func lentCondition(condition string) func(context.Context, *borrower) error {
	return func(_ context.Context, s *borrower) error {
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
func (r *lender) outputs(ctx context.Context, s *borrower) error {
	if err := lentCondition(infrav1.OutputsWrittenCondition)(ctx, s); err != nil {
		return err
	}
	name, err := template.ConnectionSecretName(s.sources)
	if err != nil {
		return inputsFault(err)
	}
	s.apply.Status.ConnectionSecretName = name
	if name == "" {
		return nil
	}
	data, err := r.lentOutputs(ctx, s.lent)
	if err != nil {
		return err
	}
	s.inputs = &template.Inputs{ConnectionSecret: name, Request: terraform.Request{
		Workspace: s.workspaceRef(),
	}}
	return r.publisher.writeConnection(ctx, s.resolved, data)
}

// recordDismissal records that the workspace that runs for this one is deleted now. It is
// stored before the deletion: a lender that does not exist afterwards has destroyed the
// resources, and one that did not exist before has not.
func (r *lender) recordDismissal(ctx context.Context, s *borrower) error {
	if !s.apply.Status.HostDeletedAt.IsZero() {
		return nil
	}
	deleted := metav1.NewTime(s.now.Truncate(time.Second))
	if err := r.recordAtOnce(ctx, s.workspace, fmt.Sprintf(`{"hostDeletedAt":%q}`, deleted.UTC().Format(time.RFC3339))); err != nil {
		return fmt.Errorf("recording the deletion of the workspace that runs for this one: %w", err)
	}
	s.apply.Status.HostDeletedAt = deleted
	return nil
}

// dismiss deletes the workspace that runs for a borrower, which destroys its resources.
func (r *lender) dismiss(ctx context.Context, s *borrower) error {
	if err := waitForOwner(ctx, r.Reader, s.apply); err != nil {
		return err
	}
	lender := lenderNamespace(s.apply)
	r.tracker.set(s.name(), []reference{{"WorkspaceTemplateApply", lentKey(s.apply, lender)}})
	if _, err := r.readLent(ctx, s.apply, lender); err != nil {
		if client.IgnoreNotFound(err) == nil && recordedLender(s.apply) != "" && s.apply.Status.HostDeletedAt.IsZero() && !s.apply.Spec.RetainWorkspaceOnDelete {
			return fault.Stall(infrav1.StateMissingReason, "Workspace %s, which has the state of this one, does not exist, so nothing was destroyed: restore or move it, or set retainWorkspaceOnDelete to leave the resources to you",
				lentKey(s.apply, lender))
		}
		return client.IgnoreNotFound(err)
	}
	// What was read belongs to this borrower, and not to the next one of its name.
	if err := r.ensureExists(ctx, s.workspace); err != nil {
		return err
	}
	// It may have to retain the resources, or a plan was approved.
	found, err := r.ensureLent(ctx, s.apply, lender, false)
	if err != nil {
		return err
	}
	if err := r.ensureExists(ctx, s.workspace); err != nil {
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
func (r *lender) cleanUp(ctx context.Context, s *borrower) error {
	cleanUp := r.cleaner.deleteSecrets
	if s.apply.Spec.RetainWorkspaceOnDelete {
		cleanUp = r.releaseSecrets
	}
	if err := cleanUp(ctx, s.workspace, componentConnection); err != nil {
		return err
	}
	r.tracker.set(s.name(), nil)
	return nil
}

// pause pauses the workspace that runs for a borrower that is paused.
func (r *lender) pause(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	lender := lenderNamespace(apply)
	if _, err := r.readLent(ctx, apply, lender); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	_, err := r.ensureLent(ctx, apply, lender, true)
	return 0, err
}
