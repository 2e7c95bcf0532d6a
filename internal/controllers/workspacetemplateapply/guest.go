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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// router selects the steps of a workspace: those of a guest if its provider config was
// lent to it. A guest has no runs: the workspace that its host creates for it has them, in
// the namespace of the provider config, whose Secrets the users of the guest cannot read.
type router struct {
	r          *Reconciler
	own, guest *reconcile.Frame[*infrav1.WorkspaceTemplateApply, scope]
}

func (r *Reconciler) router() *router { return &router{r: r, own: r.frame(), guest: r.guestFrame()} }

// Reconcile reconciles a workspace.
func (f *router) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := f.r.Client.Get(ctx, req.NamespacedName, apply); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("getting object: %w", err)
	}
	isGuest, err := f.r.isGuest(ctx, apply)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case isGuest:
		return f.guest.Reconcile(ctx, req)
	default:
		return f.own.Reconcile(ctx, req)
	}
}

// guestFrame returns the steps of a guest.
func (r *Reconciler) guestFrame() *reconcile.Frame[*infrav1.WorkspaceTemplateApply, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceTemplateApply, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateApplyFinalizer,
		Scope: func(_ context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*scope, error) {
			return &scope{apply: apply, now: r.Now()}, nil
		},
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.DependenciesReadyCondition, Run: r.hostGuest},
			{Condition: infrav1.InputsValidCondition, Run: hosted(infrav1.InputsValidCondition)},
			{Run: r.approval},
			{Condition: infrav1.NoDriftCondition, Run: hosted(infrav1.NoDriftCondition), Skip: driftNotReported, Informational: true},
			{Condition: infrav1.AppliedCondition, Run: hosted(infrav1.AppliedCondition), Message: appliedMessage},
			{Condition: infrav1.OutputsWrittenCondition, Run: r.guestOutputs, Message: outputsMessage},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DestroyedCondition, Run: r.dismissGuest},
			{Run: r.cleanUpGuest},
		},
		Paused:       r.pauseHosted,
		OnTransition: r.announce,
	}
}

// isGuest reports whether a workspace runs in another namespace. It does if its template
// is there and brings a provider config along, and it has no provider config of its own.
// What was decided with the first run stays: the state does not move.
func (r *Reconciler) isGuest(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	switch guest, _ := apply.HostedFor(); {
	case apply.Status.Runs > 0 || guest != "":
		return false, nil
	case recordedHost(apply) != "":
		return true, nil
	case apply.Annotations[infrav1.StateLineageAnnotation] != "":
		// It has a state of its own. After a move its Secrets may not exist yet.
		return false, nil
	case r.Grants == nil || r.Grants.Denied || key.Namespace == apply.Namespace || apply.Spec.ProviderConfigRef != nil:
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
	if found, err := r.exists(ctx, hostedKey(apply, key.Namespace), &infrav1.WorkspaceTemplateApply{}); err != nil || found {
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

// recordedHost returns the namespace in which a guest runs since its first run, or an empty
// string. Only the manager writes the status. It is lost in a move to another management
// cluster, and then the annotation counts.
func recordedHost(apply *infrav1.WorkspaceTemplateApply) string {
	if host := apply.Status.Host; host != nil {
		return host.Namespace
	}
	return apply.Annotations[infrav1.HostedInAnnotation]
}

// hostNamespace returns the namespace in which a guest runs.
func hostNamespace(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(recordedHost(apply), apply.Spec.TemplateRef.Key(apply.Namespace).Namespace)
}

// forgetHost lets a guest start with an empty state. The user asks for it by removing the
// annotation. It has no effect while the workspace exists that has the state.
func (r *Reconciler) forgetHost(ctx context.Context, s *scope) error {
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
func (r *Reconciler) hasRun(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingFields{workspaceIndex: record.LabelValue(apply.Name)})
	if err != nil {
		return false, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(secret corev1.Secret) bool {
		return slices.Contains([]string{record.ComponentRun, record.ComponentState, record.ComponentSnapshot}, secret.Labels[infrav1.ComponentLabel])
	}), nil
}

// hostGuest waits for what a guest depends on, and ensures that the workspace that runs
// for it is as it should be.
func (r *Reconciler) hostGuest(ctx context.Context, s *scope) error {
	if err := r.forgetHost(ctx, s); err != nil {
		return err
	}
	host := hostNamespace(s.apply)
	refs := append(withGrants(s.apply.Namespace, references(s.apply)), reference{"WorkspaceTemplateApply", hostedKey(s.apply, host)})
	r.tracker.set(s.name(), refs)
	if err := r.readTemplate(ctx, s); err != nil {
		return err
	}
	shared := sharedConfigKey(&s.sources)
	if shared == nil || shared.Namespace != host {
		return fault.Stall(infrav1.BackendChangedReason, "The state of this workspace is in namespace %s, where workspace %s runs for it: use a template of that namespace that has a providerConfigRef, and remove spec.providerConfigRef", host, hostedKey(s.apply, host).Name)
	}
	r.tracker.set(s.name(), append(refs, reference{"WorkspaceProviderConfig", *shared}))
	if err := r.Grants.Check(ctx, s.apply.Namespace, infrav1.GrantedWorkspaceProviderConfig, *shared); err != nil {
		return err
	}
	if waitsForOthers(s.apply) {
		if err := r.waitForWorkspaces(ctx, s); err != nil {
			return err
		}
		if err := r.waitForSecrets(ctx, s); err != nil {
			return err
		}
	}
	var err error
	if s.hosted, err = r.ensureHosted(ctx, s.apply, host, false); err != nil {
		return err
	}
	s.mirror()
	return hosted(infrav1.DependenciesReadyCondition)(ctx, s)
}

// mirror copies the status of the workspace that runs for a guest. The number of runs
// stays zero: the guest has none.
func (s *scope) mirror() {
	status, own := s.hosted.Status.DeepCopy(), &s.apply.Status
	status.Conditions, status.ObservedGeneration, status.ConnectionSecretName = own.Conditions, own.ObservedGeneration, own.ConnectionSecretName
	status.Runs, status.Host, status.HostDeletedAt, status.DeletedBy = 0, own.Host, own.HostDeletedAt, own.DeletedBy
	if status.Plan != nil && own.Plan != nil && own.Plan.ID == status.Plan.ID {
		// It is the approval of the guest that counts, which the next step reads.
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = own.Plan.ApprovedBy, own.Plan.ApprovedAt, own.Plan.Comment
	} else if status.Plan != nil {
		status.Plan.ApprovedBy, status.Plan.ApprovedAt, status.Plan.Comment = "", nil, ""
	}
	s.apply.Status = *status
}

// driftNotReported reports whether the workspace that runs for the guest has reported neither
// drift nor its absence since it was changed.
func driftNotReported(s *scope) bool {
	c := meta.FindStatusCondition(s.hosted.Status.Conditions, infrav1.NoDriftCondition)
	return c == nil || c.ObservedGeneration != s.hosted.Generation
}

// hosted returns a step that has the result of a condition of the workspace that runs for
// the guest.
func hosted(condition string) func(context.Context, *scope) error {
	return func(_ context.Context, s *scope) error {
		c := meta.FindStatusCondition(s.hosted.Status.Conditions, condition)
		switch {
		case c == nil || c.ObservedGeneration != s.hosted.Generation:
			return fault.Wait(infrav1.RunInProgressReason, "Waiting for workspace %s", client.ObjectKeyFromObject(s.hosted))
		case c.Status == "True":
			return nil
		case c.Status == "False":
			return fault.Wait(c.Reason, "%s", c.Message)
		default:
			return fault.Unknown(0, c.Reason, "%s", c.Message)
		}
	}
}

// guestOutputs copies the outputs into the connection Secret of the guest.
func (r *Reconciler) guestOutputs(ctx context.Context, s *scope) error {
	if err := hosted(infrav1.OutputsWrittenCondition)(ctx, s); err != nil {
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
	data, err := r.hostedOutputs(ctx, s.hosted)
	if err != nil {
		return err
	}
	s.inputs = &template.Inputs{ConnectionSecret: name, Request: terraform.Request{
		Workspace: s.workspaceRef(),
	}}
	return r.writeConnection(ctx, s, data)
}

// recordDismissal records that the workspace that runs for this one is deleted now. It is
// stored before the deletion: a host that does not exist afterwards has destroyed the
// resources, and one that did not exist before has not.
func (r *Reconciler) recordDismissal(ctx context.Context, s *scope) error {
	if !s.apply.Status.HostDeletedAt.IsZero() {
		return nil
	}
	deleted := metav1.NewTime(s.now.Truncate(time.Second))
	if err := r.recordAtOnce(ctx, s, fmt.Sprintf(`{"hostDeletedAt":%q}`, deleted.UTC().Format(time.RFC3339))); err != nil {
		return fmt.Errorf("recording the deletion of the workspace that runs for this one: %w", err)
	}
	s.apply.Status.HostDeletedAt = deleted
	return nil
}

// dismissGuest deletes the workspace that runs for a guest, which destroys its resources.
func (r *Reconciler) dismissGuest(ctx context.Context, s *scope) error {
	if err := r.waitForOwner(ctx, s); err != nil {
		return err
	}
	host := hostNamespace(s.apply)
	r.tracker.set(s.name(), []reference{{"WorkspaceTemplateApply", hostedKey(s.apply, host)}})
	if _, err := r.readHosted(ctx, s.apply, host); err != nil {
		if client.IgnoreNotFound(err) == nil && recordedHost(s.apply) != "" && s.apply.Status.HostDeletedAt.IsZero() && !s.apply.Spec.RetainWorkspaceOnDelete {
			return fault.Stall(infrav1.StateMissingReason, "Workspace %s, which has the state of this one, does not exist, so nothing was destroyed: restore or move it, or set retainWorkspaceOnDelete to leave the resources to you",
				hostedKey(s.apply, host))
		}
		return client.IgnoreNotFound(err)
	}
	// What was read belongs to this guest, and not to the next one of its name.
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	// It may have to retain the resources, or a plan was approved.
	found, err := r.ensureHosted(ctx, s.apply, host, false)
	if err != nil {
		return err
	}
	if err := r.ensureExists(ctx, s); err != nil {
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
	s.hosted = found
	s.mirror()
	if c := meta.FindStatusCondition(found.Status.Conditions, infrav1.DestroyedCondition); c != nil && c.Status != "True" {
		return fault.Wait(c.Reason, "%s", c.Message)
	}
	return fault.Wait(infrav1.RunInProgressReason, "Waiting for the deletion of workspace %s", client.ObjectKeyFromObject(found))
}

// cleanUpGuest deletes or releases the connection Secret.
func (r *Reconciler) cleanUpGuest(ctx context.Context, s *scope) error {
	cleanUp := r.deleteSecrets
	if s.apply.Spec.RetainWorkspaceOnDelete {
		cleanUp = r.releaseSecrets
	}
	if err := cleanUp(ctx, s, componentConnection); err != nil {
		return err
	}
	r.tracker.set(s.name(), nil)
	return nil
}

// pauseHosted pauses the workspace that runs for a guest that is paused.
func (r *Reconciler) pauseHosted(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	host := hostNamespace(apply)
	if _, err := r.readHosted(ctx, apply, host); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	_, err := r.ensureHosted(ctx, apply, host, true)
	return 0, err
}
