package workspacetemplate

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/rollout"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// hasNoStages reports whether a template has, and had, no stages.
func hasNoStages(s *scope) bool {
	return s.template.Spec.Rollout == nil && s.template.Status.Rollout == nil
}

// rollout gives the current module to the workspaces whose stage has come.
func (r *Reconciler) rollout(ctx context.Context, s *scope) error {
	users, err := r.users(ctx, s.template)
	if err != nil {
		return err
	}
	if s.template.Spec.Rollout == nil {
		return r.endRollouts(ctx, s.template, users)
	}
	revision, err := r.ensureRevision(ctx, s.template)
	if err != nil {
		return err
	}
	var workspaces []rollout.Workspace
	used := sets.New(revision.Name)
	for _, user := range users {
		used.Insert(user.Annotations[infrav1.TemplateRevisionAnnotation])
		if !user.DeletionTimestamp.IsZero() {
			continue
		}
		w, err := r.workspace(ctx, s.template, user, revision.Name)
		if err != nil {
			return err
		}
		workspaces = append(workspaces, w)
	}
	former := s.template.Status.Rollout
	progress := rollout.Next(s.template.Spec.Rollout, revision.Name, former, workspaces, r.Now())
	for _, key := range progress.Assign {
		if err := r.assign(ctx, key, revision.Name); err != nil {
			return err
		}
	}
	s.template.Status.Rollout = &progress.Status
	if progress.Fault == nil && (former == nil || !former.CompleteSince.Equal(&progress.Status.CompleteSince)) {
		return r.pruneRevisions(ctx, s.template, used.Insert(progress.Status.Previous))
	}
	return progress.Fault
}

// users returns the workspaces that run with the template. One that another workspace runs for
// does not.
func (r *Reconciler) users(ctx context.Context, template *infrav1.WorkspaceTemplate) ([]*infrav1.WorkspaceTemplateApply, error) {
	keys, err := r.Usage.OfTemplate(ctx, client.ObjectKeyFromObject(template))
	if err != nil {
		return nil, err
	}
	var users []*infrav1.WorkspaceTemplateApply
	for _, key := range keys {
		apply := &infrav1.WorkspaceTemplateApply{}
		if err := r.Client.Get(ctx, key, apply); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading workspace %s: %w", key, err)
		} else if err == nil && apply.Status.Host == nil {
			users = append(users, apply)
		}
	}
	return users, nil
}

// ensureRevision keeps the module of the template, which workspaces use while they wait for
// the stage of the next one.
func (r *Reconciler) ensureRevision(ctx context.Context, template *infrav1.WorkspaceTemplate) (*appsv1.ControllerRevision, error) {
	revision, err := rollout.NewRevision(template)
	if err != nil {
		return nil, err
	}
	if known := template.Status.Rollout; known != nil && known.Revision == revision.Name {
		return revision, nil
	}
	if err := controllerutil.SetControllerReference(template, revision, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("setting the owner of revision %s: %w", revision.Name, err)
	}
	if err := r.Client.Create(ctx, revision); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating revision %s: %w", revision.Name, err)
	}
	return revision, nil
}

// workspace returns what the rollout knows about a workspace.
func (r *Reconciler) workspace(ctx context.Context, template *infrav1.WorkspaceTemplate, apply *infrav1.WorkspaceTemplateApply, current string) (rollout.Workspace, error) {
	w := rollout.Workspace{Key: client.ObjectKeyFromObject(apply), Labels: apply.Labels}
	if assigned, applied := apply.Annotations[infrav1.TemplateRevisionAnnotation], apply.Status.TemplateRevision; rollout.IsRevisionOf(template.Name, assigned) {
		w.Revision = assigned
	} else if assigned == "" && rollout.IsRevisionOf(template.Name, applied) {
		// A tool that replaces annotations must not begin a stage.
		w.Revision = applied
		if err := r.assign(ctx, w.Key, applied); err != nil {
			return w, err
		}
	}
	w.IsNew = apply.Status.AppliedAt.IsZero() && apply.Status.State == nil && apply.Annotations[infrav1.StateLineageAnnotation] == ""
	w.Waits, w.IsFailed = gate(apply, current)
	name := apply.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return w, nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("reading Cluster %s/%s: %w", apply.Namespace, name, err)
	}
	w.Labels = labels.Merge(cluster.Labels, apply.Labels)
	if w.Waits == "" && !conditions.IsTrue(cluster, clusterv1.ClusterAvailableCondition) {
		w.Waits = "its Cluster " + name + " is not available"
	}
	return w, nil
}

// gate returns why a workspace is not ready with the current module, and whether it will not
// become ready by itself.
func gate(apply *infrav1.WorkspaceTemplateApply, current string) (waits string, isFailed bool) {
	if !conditions.IsTrue(apply, infrav1.ReadyCondition) {
		ready, stalled := conditions.Get(apply, infrav1.ReadyCondition), conditions.IsTrue(apply, reconcile.StalledCondition)
		if ready == nil {
			return "it was not reconciled yet", false
		}
		// The failure of earlier inputs stays in the status.
		return ready.Message, stalled || apply.Status.Failure != nil
	}
	switch drift := conditions.Get(apply, infrav1.NoDriftCondition); {
	case apply.Status.TemplateRevision != current:
		return "it has not applied the module yet", false
	case drift != nil && drift.Status == metav1.ConditionFalse:
		return drift.Message, false
	default:
		return "", false
	}
}

// assign lets a workspace use a revision. An empty name lets it use the template itself.
func (r *Reconciler) assign(ctx context.Context, key client.ObjectKey, revision string) error {
	var value *string
	if revision != "" {
		value = &revision
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{infrav1.TemplateRevisionAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := r.Client.Patch(ctx, apply, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("assigning revision %s to workspace %s: %w", revision, key, err)
	}
	return nil
}

// endRollouts lets all workspaces use the template itself, because it has no stages any more.
func (r *Reconciler) endRollouts(ctx context.Context, template *infrav1.WorkspaceTemplate, users []*infrav1.WorkspaceTemplateApply) error {
	for _, user := range users {
		if user.Annotations[infrav1.TemplateRevisionAnnotation] == "" {
			continue
		}
		if err := r.assign(ctx, client.ObjectKeyFromObject(user), ""); err != nil {
			return err
		}
	}
	template.Status.Rollout = nil
	meta.RemoveStatusCondition(&template.Status.Conditions, infrav1.RolledOutCondition)
	return r.pruneRevisions(ctx, template, nil)
}

// pruneRevisions deletes the revisions that no workspace uses any more, except those to keep.
func (r *Reconciler) pruneRevisions(ctx context.Context, template *infrav1.WorkspaceTemplate, keep sets.Set[string]) error {
	var list appsv1.ControllerRevisionList
	if err := r.Usage.Live.List(ctx, &list, client.InNamespace(template.Namespace), client.MatchingLabels{rollout.TemplateLabel: record.LabelValue(template.Name)}); err != nil {
		return fmt.Errorf("listing revisions: %w", err)
	}
	for i := range list.Items {
		revision := &list.Items[i]
		if keep.Has(revision.Name) || !metav1.IsControlledBy(revision, template) {
			continue
		}
		if err := r.Client.Delete(ctx, revision); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting revision %s: %w", revision.Name, err)
		}
	}
	return nil
}

func hasStages(template *infrav1.WorkspaceTemplate) bool { return template.Spec.Rollout != nil }

// changesGate selects the events of workspaces that matter to rollouts.
var changesGate = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.WorkspaceTemplateApply)
		after, isApply := e.ObjectNew.(*infrav1.WorkspaceTemplateApply)
		if !ok || !isApply {
			return false
		}
		revision := after.Status.TemplateRevision
		waitsBefore, failedBefore := gate(before, revision)
		waits, failed := gate(after, revision)
		return waitsBefore != waits || failedBefore != failed || before.Status.TemplateRevision != revision ||
			before.Annotations[infrav1.TemplateRevisionAnnotation] != after.Annotations[infrav1.TemplateRevisionAnnotation]
	},
}
