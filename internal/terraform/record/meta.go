package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/terraform"
)

// Labels of the objects that belong to a workspace. The names are copied from
// the API package, which the runner does not import to stay small.
const (
	workspaceLabel = "capt.appthrust.io/workspace"
	componentLabel = "capt.appthrust.io/component"
	runLabel       = "capt.appthrust.io/run"
	// moveLabel makes clusterctl move the object.
	moveLabel = "clusterctl.cluster.x-k8s.io/move"
)

// BlockMoveAnnotation makes clusterctl wait before it moves anything, and fail in the
// end. A run has it until the controller has recorded its result: the copy of a state
// that changes would be outdated, and clusterctl does not find a state that is created
// after it has listed the objects. The controller is paused during a move, so a move
// that began during a run does not succeed.
const BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"

// StateFinalizer keeps states, snapshots and rescued states when their namespace is deleted:
// Kubernetes would delete them at once, before their resources. The controller removes it from
// what it deletes, and from what a workspace that does not exist any more has left to the user.
const StateFinalizer = "capt.appthrust.io/state"

// LockInfoAnnotation is the annotation of the lock's Lease in which OpenTofu and
// Terraform record the holder. Users who run them manually see the running run there.
const LockInfoAnnotation = "app.terraform.io/lock-info"

// Meta returns the metadata of an object that belongs to a workspace and that
// clusterctl moves with it. States, snapshots and rescued states have no owner,
// so that the garbage collector never deletes them. No object blocks the
// deletion of its owner: a foreground deletion would then delete what a destroy
// run needs.
func Meta(workspace terraform.WorkspaceRef, component, runID string) metav1.ObjectMeta {
	meta := LocalMeta(workspace, component, runID)
	meta.Labels[moveLabel] = ""
	return meta
}

// StateMeta returns the metadata of a state.
func StateMeta(request *terraform.Request) metav1.ObjectMeta {
	meta := Meta(request.Workspace, ComponentState, "")
	meta.Name = request.Backend.StateSecretName()
	maps.Copy(meta.Labels, request.Backend.StateLabels())
	meta.Annotations = map[string]string{"encoding": "gzip"}
	return meta
}

// LockMeta returns the metadata of the lock of a state.
func LockMeta(request *terraform.Request) metav1.ObjectMeta {
	meta := StateMeta(request)
	meta.Name, meta.Finalizers = request.Backend.LeaseName(), nil
	return meta
}

// LocalMeta returns the metadata of an object that belongs to a workspace and
// that clusterctl does not move.
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
		meta.Finalizers = []string{StateFinalizer}
	}
	if runID != "" {
		meta.Labels[runLabel] = runID
	}
	return meta
}

// IsOf reports whether an object is of a workspace. The label of the workspace does not prove
// it: a run writes the labels of what it stores. But it stores nothing as another run, and
// the ID of a run has the name of its workspace.
func IsOf(obj metav1.Object, workspace string) bool {
	if obj.GetLabels()[workspaceLabel] != LabelValue(workspace) {
		return false
	}
	id := RunID(obj)
	number, err := RunNumber(id)
	return id == "" || err == nil && id == NewRunID(workspace, number)
}

// BelongsTo reports whether an object is of a component of a workspace.
func BelongsTo(obj metav1.Object, workspace terraform.WorkspaceRef, component string) bool {
	return IsOf(obj, workspace.Name) && obj.GetLabels()[componentLabel] == component
}

// BelongsToAnother reports whether an object is of another workspace. One that names no
// workspace, such as a state that a user restored, is not.
func BelongsToAnother(obj metav1.Object, workspace terraform.WorkspaceRef) bool {
	name := obj.GetLabels()[workspaceLabel]
	return name != "" && name != LabelValue(workspace.Name)
}

// RunID returns the ID of the run that an object belongs to, if any.
func RunID(obj metav1.Object) string { return obj.GetLabels()[runLabel] }

// SnapshotName returns the name of the snapshot of a state before a run. The runs of a
// later workspace of the same name have the same IDs.
func SnapshotName(runID string, state []byte) string {
	return "snapshot-" + runID + "-" + shortSum(state)
}

// OutputName returns the name of the output of a state command. It is not predictable
// if the ID is random.
func OutputName(commandID string) string { return "output-" + strings.ToLower(commandID) }

// InputName returns the name of a state that a user pushes.
func InputName(commandID string) string { return terraform.InputPrefix + strings.ToLower(commandID) }

// RescueName returns the name of a state that a run could not save. A run may have
// several.
func RescueName(runID string, state []byte) string {
	return "rescue-" + runID + "-" + shortSum(state)
}

// FindRescued returns which of the names of rescued states is that of a state, or an
// empty string.
func FindRescued(names []string, state []byte) string {
	for _, name := range names {
		if strings.HasSuffix(name, "-"+shortSum(state)) {
			return name
		}
	}
	return ""
}

func shortSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:4])
}

// ModuleName returns the name of the stored content of a workspace's module. A later
// workspace of the same name has others.
func ModuleName(workspace terraform.WorkspaceRef, digest string) string {
	sum := sha256.Sum256([]byte(workspace.UID + " " + digest))
	return "module-" + Shorten(workspace.Name, 45) + "-" + hex.EncodeToString(sum[:8])
}

// IsStoredState reports whether a Secret is a snapshot or a rescued state of a
// workspace.
func IsStoredState(obj metav1.Object, workspace string) bool {
	component := obj.GetLabels()[componentLabel]
	return (component == ComponentSnapshot || component == ComponentRescue) && IsOf(obj, workspace)
}

// runNumberSeparator separates the name of the workspace from the number of the run.
const runNumberSeparator = "-r"

// NewRunID returns the ID of a run. It is a valid label value and part of a name.
func NewRunID(workspace string, number int64) string {
	return Shorten(workspace, 45) + runNumberSeparator + strconv.FormatInt(number, 10)
}

// ParseRunID returns the number of a run, and the part of its ID that all runs of the
// workspace share: the name of the workspace, shortened if it is long.
func ParseRunID(id string) (workspace string, number int64, err error) {
	i := strings.LastIndex(id, runNumberSeparator)
	if i < 0 {
		return "", 0, fmt.Errorf("run %q has no number", id)
	}
	number, err = strconv.ParseInt(id[i+len(runNumberSeparator):], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("run %q has no number: %w", id, err)
	}
	return id[:i], number, nil
}

// RunNumber returns the number of a run from its ID.
func RunNumber(id string) (int64, error) {
	_, number, err := ParseRunID(id)
	return number, err
}
