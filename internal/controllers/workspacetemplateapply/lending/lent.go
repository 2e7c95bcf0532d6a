package lending

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// fieldManager is the field manager of the workspaces that run for others. Fields that the
// borrower does not set are left to the users of the lender.
const fieldManager = "capt-host"

// passedApproval is the annotation of a workspace that runs for a borrower with the plan that
// the users of the borrower have approved. It distinguishes their approval, which they may
// withdraw, from that of the users of the lender.
const passedApproval = "capt.appthrust.io/approved-by-guest" //nolint:gosec // The name of an annotation.

// passedAnnotations are the annotations that follow the borrower.
var passedAnnotations = []string{clusterv1.PausedAnnotation, passedApproval, infrav1.ChangedByGuestAnnotation, template.GuestRequirementsAnnotation}

// lentKey returns the key of the workspace that runs for a borrower in a namespace.
func lentKey(borrower *infrav1.WorkspaceTemplateApply, namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: runs.LentName(client.ObjectKeyFromObject(borrower))}
}

// readLent reads the workspace that runs for a borrower. It returns a fault if a user has
// created a workspace with its name.
func (r *Reconciler) readLent(ctx context.Context, borrower *infrav1.WorkspaceTemplateApply, namespace string) (*infrav1.WorkspaceTemplateApply, error) {
	key, found := lentKey(borrower, namespace), &infrav1.WorkspaceTemplateApply{}
	if err := r.Reader.Get(ctx, key, found); err != nil {
		return nil, err //nolint:wrapcheck // The caller distinguishes one that does not exist.
	}
	if borrowerNamespace, name := found.HostedFor(); borrowerNamespace != borrower.Namespace || name != borrower.Name {
		return nil, fault.Stall(infrav1.NotAllowedReason, "Workspace %s, which should run for this one, runs for itself or another one: rename it", key)
	}
	return found, nil
}

// ensureLent creates or updates the workspace that runs for a borrower, and returns it.
func (r *Reconciler) ensureLent(ctx context.Context, borrower *infrav1.WorkspaceTemplateApply, namespace string, paused bool) (*infrav1.WorkspaceTemplateApply, error) {
	found, err := r.readLent(ctx, borrower, namespace)
	switch {
	case apierrors.IsNotFound(err) && runs.RecordedLender(borrower) != "":
		return nil, fault.Stall(infrav1.StateMissingReason, "Workspace %s, which has the state of this one, does not exist: restore or move it, or remove the annotation %s to start with an empty state",
			lentKey(borrower, namespace), infrav1.HostedInAnnotation)
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	case err == nil && !found.DeletionTimestamp.IsZero() && borrower.DeletionTimestamp.IsZero():
		return nil, fault.Wait(clusterv1.DeletingReason, "Workspace %s, which runs for this one, is being deleted", client.ObjectKeyFromObject(found))
	}
	desired := desiredLent(borrower, namespace, paused)
	switch {
	case err == nil && !found.DeletionTimestamp.IsZero():
		found, err = r.updateDeleted(ctx, found, desired)
	case err != nil || differs(found, desired):
		found, err = r.applyLent(ctx, desired)
	}
	if err != nil {
		return nil, err
	}
	if borrower.Annotations == nil {
		borrower.Annotations = map[string]string{}
	}
	// It survives a move to another management cluster, where the status is lost.
	borrower.Annotations[infrav1.HostedInAnnotation] = namespace
	borrower.Status.Host = new(sources.ReferenceTo(found))
	return found, nil
}

// desiredLent returns the workspace that runs for a borrower. Nothing in it refers to an
// object by a name that the borrower chooses.
func desiredLent(borrower *infrav1.WorkspaceTemplateApply, namespace string, paused bool) *infrav1.WorkspaceTemplateApply {
	key := lentKey(borrower, namespace)
	desired := &infrav1.WorkspaceTemplateApply{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{
			infrav1.HostedForAnnotation: borrower.Namespace + "/" + borrower.Name,
		}},
		Spec: *borrower.Spec.DeepCopy(),
	}
	spec := &desired.Spec
	spec.TemplateRef = infrav1.TemplateReference{Name: borrower.Spec.TemplateRef.Name}
	spec.ProviderConfigRef, spec.WaitForSecrets, spec.WaitForWorkspaces = nil, nil, nil
	// These fields are for the users of the lender: a borrower that applied them could also remove
	// them, even if both had set them.
	spec.Approval, spec.DestroyApproval, spec.Protect = "", "", nil
	if required := template.SpecRequirements(&borrower.Spec); required != "" {
		desired.Annotations[template.GuestRequirementsAnnotation] = required
	}
	spec.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: key.Name + "-connection"}
	if paused {
		desired.Annotations[clusterv1.PausedAnnotation] = ""
	}
	if plan := borrower.Spec.ApprovedPlan; plan != "" {
		desired.Annotations[passedApproval] = plan
	}
	if author := authorOf(borrower); author != "" {
		desired.Annotations[infrav1.ChangedByGuestAnnotation] = author
	}
	if filter := borrower.Labels[clusterv1.WatchLabel]; filter != "" {
		desired.Labels = map[string]string{clusterv1.WatchLabel: filter}
	}
	return desired
}

// authorOf returns who is responsible for the next plan of a borrower: the user who deleted it, or
// who changed it last.
func authorOf(borrower *infrav1.WorkspaceTemplateApply) string {
	if !borrower.DeletionTimestamp.IsZero() && borrower.Status.DeletedBy != "" {
		return borrower.Status.DeletedBy
	}
	return borrower.Annotations[infrav1.ChangedByAnnotation]
}

// differs reports whether a workspace is not as desired. What users of the lender add is
// not compared: the approval of a plan, what they require, and further annotations.
func differs(found, desired *infrav1.WorkspaceTemplateApply) bool {
	spec := desired.Spec.DeepCopy()
	spec.Approval, spec.DestroyApproval, spec.Protect = found.Spec.Approval, found.Spec.DestroyApproval, found.Spec.Protect
	if spec.ApprovedPlan == "" {
		spec.ApprovedPlan = approvedByLender(found)
	}
	same := map[string]string{}
	maps.Copy(same, found.Annotations)
	maps.Copy(same, desired.Annotations)
	for _, name := range passedAnnotations {
		if _, wanted := desired.Annotations[name]; !wanted {
			delete(same, name)
		}
	}
	return !equality.Semantic.DeepEqual(&found.Spec, spec) || !maps.Equal(found.Annotations, same)
}

// approvedByLender returns the plan that the users of the lender have approved, if any.
func approvedByLender(found *infrav1.WorkspaceTemplateApply) string {
	if plan := found.Spec.ApprovedPlan; plan != found.Annotations[passedApproval] {
		return plan
	}
	return ""
}

func (r *Reconciler) applyLent(ctx context.Context, desired *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplateApply, error) {
	if err := object.Apply(ctx, r.Client, desired, fieldManager); err != nil {
		return nil, err
	}
	applied := &infrav1.WorkspaceTemplateApply{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(desired), applied); err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	return applied, nil
}

// updateDeleted updates a workspace that is being deleted. It does not apply it, which
// would create it again if it is gone.
func (r *Reconciler) updateDeleted(ctx context.Context, found, desired *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplateApply, error) {
	keepStricter(&desired.Spec, &found.Spec)
	if !differs(found, desired) {
		return found, nil
	}
	updated := found.DeepCopy()
	if updated.Spec = desired.Spec; updated.Spec.ApprovedPlan == "" {
		updated.Spec.ApprovedPlan = approvedByLender(found)
	}
	for _, name := range passedAnnotations {
		delete(updated.Annotations, name)
	}
	maps.Copy(updated.Annotations, desired.Annotations)
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("updating workspace %s: %w", client.ObjectKeyFromObject(found), err)
	}
	return updated, nil
}

// keepStricter keeps what protects the resources of a workspace that is being deleted: the
// users of the lender may have set it.
func keepStricter(spec, before *infrav1.WorkspaceTemplateApplySpec) {
	spec.Approval, spec.DestroyApproval, spec.Protect = before.Approval, before.DestroyApproval, before.Protect
	spec.RetainWorkspaceOnDelete = spec.RetainWorkspaceOnDelete || before.RetainWorkspaceOnDelete
}

// lentOutputs returns the outputs of the workspace that runs for a borrower.
func (r *Reconciler) lentOutputs(ctx context.Context, found *infrav1.WorkspaceTemplateApply) (map[string][]byte, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: found.Namespace, Name: found.Status.ConnectionSecretName}
	if err := r.Reader.Get(ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("reading the outputs of workspace %s: %w", client.ObjectKeyFromObject(found), err)
	}
	if !metav1.IsControlledBy(&secret, found) {
		return nil, fault.Wait(infrav1.SecretConflictReason, "Secret %s does not have the outputs of workspace %s", key, found.Name)
	}
	return secret.Data, nil
}
