package runner

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// leftState is a state that an earlier run left in the working directory or in Secrets,
// because its backend did not have it.
type leftState struct {
	command.UnsavedState
	// name is the name under which it is stored in Secrets, if it is.
	name string
	// workspace is the UID of the workspace that left it, or empty if it is unknown, and own is
	// set if the workspace of the run may continue it in any case.
	workspace string
	own       bool
}

// mayHaveLeft reports whether an earlier run of the workspace may have left a state,
// and not one of a deleted workspace of the same name. It decides only if the backend
// has no state. If the configuration of the backend has changed, that state may be in
// another place, and a rescued one beside it would be a second one.
func (run *execution) mayHaveLeft(state leftState) bool {
	if run.request.State.Moved {
		return false
	}
	if state.own {
		return true
	}
	left, err := statefile.Identify(state.Content)
	if err != nil || !run.request.State.Exists() {
		return false
	}
	if lineage := run.request.State.Lineage; lineage != "" {
		return lineage == left.Lineage
	}
	// A power loss may have left no owner in the working directory.
	return state.workspace == "" || state.workspace == run.request.Workspace.UID
}

// cannotMerge reports a rescued state that does not continue the saved one.
func (run *execution) cannotMerge(name string, rescued, saved []byte) {
	if run.result.NotMerged == nil {
		run.result.NotMerged = map[string]int{}
	}
	run.result.NotMerged[name] = statefile.Missing(rescued, saved)
}

// rescuer stores states that their backend does not accept in other Secrets, and finds those
// that earlier runs stored.
type rescuer struct {
	storage *storage
	secret  *runSecret
	workdir *command.Workdir
}

// leftInDir returns the states that earlier runs left in the working directory.
func (r *rescuer) leftInDir(run *execution) ([]leftState, error) {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	var left []leftState
	for _, state := range unsaved {
		left = append(left, leftState{UnsavedState: state, workspace: r.workdir.Owner(), own: r.workdir.OwnedBy(run.request.Workspace.UID)})
	}
	return left, err
}

// findRescued returns the name under which an earlier run has stored a state, or an empty
// string.
func (r *rescuer) findRescued(ctx context.Context, run *execution, state []byte) string {
	name := record.FindRescued(run.request.Rescued, state)
	if name == "" {
		return ""
	}
	if stored, _, err := r.storage.load(ctx, run.request.Workspace.Namespace, name); err != nil || !bytes.Equal(stored, state) {
		return ""
	}
	return name
}

// eachRescued calls save with each state that earlier runs stored in Secrets, and adds
// those that it saved to the result. It records them at once: when the run has changed the
// state, and is then lost, nothing else shows that they were saved.
func (r *rescuer) eachRescued(ctx context.Context, run *execution, save func(leftState) (bool, error)) error {
	recorded := true
	for _, name := range run.request.Rescued {
		content, first, err := r.storage.load(ctx, run.request.Workspace.Namespace, name)
		if isMissingContent(err) {
			// The run has access to all of its Secrets that exist.
			run.printf("The rescued state %s is incomplete, or was deleted", name)
			continue
		}
		if err != nil {
			return err
		}
		saved, err := save(leftState{
			UnsavedState: command.UnsavedState{Content: content, Bases: first.Annotations[record.BasesAnnotation]},
			name:         name, workspace: first.Annotations[record.WorkspaceUIDAnnotation],
		})
		if err != nil {
			return err
		}
		if saved && !slices.Contains(run.result.Saved, name) {
			run.result.Saved = append(run.result.Saved, name)
			recorded = false
		}
	}
	if recorded {
		return nil
	}
	patch, err := record.SavedPatch(run.result.Saved)
	if err != nil {
		return err
	}
	return persist(ctx, "recording saved states", func(ctx context.Context) error {
		return r.secret.patch(ctx, patch)
	})
}

// storeUnsaved stores the unsaved states of the working directory in Secrets.
func (r *rescuer) storeUnsaved(ctx context.Context, run *execution) error {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		if err := r.tryStoreRescued(ctx, run, state.Content, state.Bases); err != nil {
			return err
		}
	}
	return nil
}

// storeRescued stores a state that the backend does not accept in Secrets, so that it
// does not depend on the working directory. Bases are the digests of the saved states that
// it continues, if they are known.
func (r *rescuer) storeRescued(ctx context.Context, run *execution, state []byte, bases string) error {
	return persist(ctx, "storing a rescued state", func(ctx context.Context) error {
		return r.tryStoreRescued(ctx, run, state, bases)
	})
}

// tryStoreRescued is one attempt of storeRescued.
func (r *rescuer) tryStoreRescued(ctx context.Context, run *execution, state []byte, bases string) error {
	name := record.RescueName(r.storage.runID, state)
	if err := r.storage.store(ctx, run, name, record.ComponentRescue, state, r.rescueAnnotations(run, bases)); err != nil {
		return err
	}
	if run.result.Rescued != name {
		run.result.Rescued = name
		run.printf("The state could not be saved to its backend. It is stored in Secret %s", record.ChunkName(name, 0))
	}
	return nil
}

func (r *rescuer) rescueAnnotations(run *execution, bases string) map[string]string {
	workspace := run.request.Workspace.UID
	if r.workdir.UsedByAnother(workspace) {
		// The run has found it, and the earlier workspace left it.
		workspace = r.workdir.Owner()
	}
	annotations := map[string]string{record.WorkspaceUIDAnnotation: workspace}
	var lines []string
	for line := range strings.FieldsSeq(bases) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if surplus := len(lines) - maxBases; surplus > 0 {
		lines = slices.Delete(lines, maxBases/10, maxBases/10+surplus)
	}
	if len(lines) > 0 {
		annotations[record.BasesAnnotation] = strings.Join(lines, " ")
	}
	return annotations
}
