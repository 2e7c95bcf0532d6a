package history

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/record"
)

// showRun creates the WorkspaceRun of a run that is in the history of the status.
func (r *Recorder) showRun(ctx context.Context, s *Status, run *runs.Run) error {
	i := slices.IndexFunc(s.Apply.Status.History, func(h infrav1.RunRecord) bool { return h.ID == run.ID })
	if i < 0 {
		return nil
	}
	return r.show(ctx, &infrav1.WorkspaceRun{
		ObjectMeta: viewMeta(s.Apply, run),
		Spec:       infrav1.WorkspaceRunSpec{Workspace: s.Apply.Name, RunRecord: s.Apply.Status.History[i]},
	})
}

// viewMeta returns the metadata of an object that shows what a run did. It is deleted with the
// Secret of the run.
func viewMeta(apply *infrav1.WorkspaceTemplateApply, run *runs.Run) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: apply.Namespace, Name: run.ID,
		Labels:          map[string]string{infrav1.WorkspaceLabel: record.LabelValue(apply.Name)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: run.Secret.Name, UID: run.Secret.UID}},
	}
	if cluster := apply.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		meta.Labels[clusterv1.ClusterNameLabel] = cluster
	}
	return meta
}

// show creates an object for users, which the manager does not read. A run is recorded again if
// the write of the status failed, so the object may exist. An administrator may have removed
// the permission to create it, and nothing can be created in a namespace that is being deleted.
func (r *Recorder) show(ctx context.Context, view client.Object) error {
	err := r.Client.Create(ctx, view)
	switch {
	case apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).V(1).Info("Run is not shown", "run", view.GetName(), "cause", err.Error())
		return nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("showing run %s: %w", view.GetName(), err)
	}
	return nil
}
