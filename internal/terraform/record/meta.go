package record

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/terraform"
)

// Labels of everything kept beside a workspace. They repeat the API's names, so
// that the runner stays small.
const (
	workspaceLabel = "capt.appthrust.io/workspace"
	componentLabel = "capt.appthrust.io/component"
	runLabel       = "capt.appthrust.io/run"
	// moveLabel has clusterctl move take the object along.
	moveLabel = "clusterctl.cluster.x-k8s.io/move"
)

// Meta is the metadata of an object kept beside a workspace, which moves with
// it. What would be missed for good, the state and its snapshots, has no owner:
// whatever happens to the workspace's object, the garbage collector leaves them.
// Nothing blocks the owner's deletion, for then a deletion in the foreground
// would take away what is needed to destroy.
func Meta(workspace terraform.WorkspaceRef, component, runID string) metav1.ObjectMeta {
	meta := LocalMeta(workspace, component, runID)
	meta.Labels[moveLabel] = ""
	return meta
}

// StateMeta is the metadata of a state and of its lock, without their names.
func StateMeta(request *terraform.Request) metav1.ObjectMeta {
	meta := Meta(request.Workspace, ComponentState, "")
	maps.Copy(meta.Labels, request.Backend.StateLabels())
	meta.Annotations = map[string]string{"encoding": "gzip"}
	return meta
}

// LocalMeta is the metadata of an object that belongs to a workspace and stays when
// it moves.
func LocalMeta(workspace terraform.WorkspaceRef, component, runID string) metav1.ObjectMeta {
	controller := true
	meta := metav1.ObjectMeta{
		Namespace: workspace.Namespace,
		Labels: map[string]string{
			workspaceLabel: LabelValue(workspace.Name),
			componentLabel: component,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1",
			Kind:       "WorkspaceTemplateApply",
			Name:       workspace.Name,
			UID:        types.UID(workspace.UID),
			Controller: &controller,
		}},
	}
	switch component {
	case ComponentState, ComponentSnapshot, ComponentRescue:
		meta.OwnerReferences = nil
	}
	if runID != "" {
		meta.Labels[runLabel] = runID
	}
	return meta
}

// RunID is the run that an object belongs to.
func RunID(obj metav1.Object) string { return obj.GetLabels()[runLabel] }

// SnapshotName is the whole under which the state before a run is kept.
func SnapshotName(runID string) string { return "snapshot-" + runID }
