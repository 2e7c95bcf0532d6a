package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// saveUnsaved saves the states that earlier runs left in the working directory. A
// state that does not continue the saved one is outdated, or belongs to a branch
// that only a user can merge: it is kept in Secrets and does not stop the run.
func (r *Runner) saveUnsaved(ctx context.Context, run *execution) error {
	return r.saveUnsavedIf(ctx, run, func(state command.UnsavedState, saved []byte) bool { return state.Continues(saved) })
}

// saveLeft is saveUnsaved at the begin of a run. A workspace without a known state has
// left none: such a file belongs to a deleted workspace of the same name.
func (r *Runner) saveLeft(ctx context.Context, run *execution) error {
	return r.saveUnsavedIf(ctx, run, func(state command.UnsavedState, saved []byte) bool {
		return (len(saved) > 0 || run.request.State.Exists() && !r.workdir.UsedByAnother(run.request.Workspace.UID) || r.ownsDirectory(run)) && state.Continues(saved)
	})
}

// ownsDirectory reports whether an earlier run of the same workspace used the working
// directory, or one of a workspace whose resources were retained. Its record may be
// lost.
func (r *Runner) ownsDirectory(run *execution) bool {
	return r.workdir.OwnedBy(run.request.Workspace.UID)
}

func (r *Runner) saveUnsavedIf(ctx context.Context, run *execution, continues func(state command.UnsavedState, saved []byte) bool) error {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		switch content, saved := state.Content, run.state.current(); {
		case !json.Valid(content):
			run.printf("A state of an earlier run is incomplete, because the tool was killed while it wrote it. The run continues from the saved state")
		case sameState(content, saved):
		case continues(state, saved):
			run.printf("Saving the state that an earlier run could not save")
			if err := r.saveOrCarry(ctx, run, content, "", state.Bases); err != nil {
				return err
			}
		case hasResources(content):
			run.printf("A state of an earlier run does not continue the saved state")
			if err := r.storeRescued(ctx, run, content, state.Bases); err != nil {
				return err
			}
		}
		if err := state.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// saveRescued saves the states that earlier runs stored in Secrets, if they continue
// the saved one. The working directory of a pod is lost with it.
func (r *Runner) saveRescued(ctx context.Context, run *execution) error {
	return r.eachRescued(ctx, run, func(name string, left rescuedState) (bool, error) {
		saved, content := run.state.working(), left.Content
		if sameState(content, saved) {
			return run.state.carried == nil, nil
		}
		if len(saved) == 0 && !run.mayHaveLeft(left) || len(saved) > 0 && !left.Continues(saved) {
			return false, nil
		}
		run.printf("Saving the state that an earlier run could not save")
		if err := r.saveOrCarry(ctx, run, content, name, left.Bases); err != nil {
			return false, err
		}
		return run.state.carried == nil, nil
	})
}

// saveOrCarry saves a state. A state that is too large for its Secret is kept in
// others, and the run works with it nevertheless: only a run can make it smaller. The
// name is that of a state that is stored already, and bases are those that it continues.
func (r *Runner) saveOrCarry(ctx context.Context, run *execution, content []byte, name, bases string) error {
	if bases != "" {
		bases += command.BaseOf(run.state.current())
	}
	err := run.state.save(ctx, content)
	if err == nil {
		run.state.carried = nil
	}
	if !stateTooLarge(err) {
		return err
	}
	run.printf("The state is too large for its Secret. The run continues with it")
	if name == "" {
		name = r.findRescued(ctx, run, content)
	}
	run.state.carried, run.state.carriedName = content, name
	if name != "" {
		return nil
	}
	run.state.carriedName = record.RescueName(r.RunID, content)
	return r.storeRescued(ctx, run, content, bases)
}

// findRescued returns the name under which an earlier run has stored a state, or an empty
// string.
func (r *Runner) findRescued(ctx context.Context, run *execution, state []byte) string {
	name := record.FindRescued(run.request.Rescued, state)
	if name == "" {
		return ""
	}
	if stored, _, err := r.load(ctx, run.request.Workspace.Namespace, name); err != nil || !bytes.Equal(stored, state) {
		return ""
	}
	return name
}

// rescuedState is a state that an earlier run stored in Secrets.
type rescuedState struct {
	command.UnsavedState
	// workspace is the UID of the workspace that left it.
	workspace string
}

// mayHaveLeft reports whether an earlier run of the workspace may have left a state,
// and not one of a deleted workspace of the same name. It decides only if the backend
// has no state.
func (run *execution) mayHaveLeft(state rescuedState) bool {
	left, err := command.Identify(state.Content)
	if err != nil || !run.request.State.Exists() {
		return false
	}
	if lineage := run.request.State.Lineage; lineage != "" {
		return lineage == left.Lineage
	}
	return state.workspace == run.request.Workspace.UID
}

// eachRescued calls save with each state that earlier runs stored in Secrets, and adds
// those that it saved to the result. It records them at once: when the run has changed the
// state, and is then lost, nothing else shows that they were saved.
func (r *Runner) eachRescued(ctx context.Context, run *execution, save func(name string, state rescuedState) (bool, error)) error {
	recorded := true
	for _, name := range run.request.Rescued {
		content, first, err := r.load(ctx, run.request.Workspace.Namespace, name)
		if isMissingContent(err) {
			// The run has access to all of its Secrets that exist.
			run.printf("The rescued state %s is incomplete, or was deleted", name)
			continue
		}
		if err != nil {
			return err
		}
		saved, err := save(name, rescuedState{
			UnsavedState: command.UnsavedState{Content: content, Bases: first.Annotations[record.BasesAnnotation]},
			workspace:    first.Annotations[record.WorkspaceUIDAnnotation],
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
		return r.patchRun(ctx, patch)
	})
}

// sameState reports whether two states are the same version of a state.
func sameState(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	x, xErr := command.ParseState(a)
	y, yErr := command.ParseState(b)
	return xErr == nil && yErr == nil && x.Lineage == y.Lineage && x.Serial == y.Serial && equalJSON(a, b)
}

func equalJSON(a, b []byte) bool {
	x, xErr := decodeNumbers(a)
	y, yErr := decodeNumbers(b)
	if xErr != nil || yErr != nil {
		return false
	}
	left, leftErr := json.Marshal(x)
	right, rightErr := json.Marshal(y)
	return leftErr == nil && rightErr == nil && string(left) == string(right)
}

// decodeNumbers decodes JSON without rounding its numbers.
func decodeNumbers(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// hasResources reports whether a state has resources. An encrypted or invalid state
// may have some.
func hasResources(content []byte) bool {
	state, err := command.ParseState(content)
	return err != nil || state.Resources > 0
}

// hasUnsaved reports whether a working directory has an unsaved state with
// resources.
func hasUnsaved(dir string) (bool, error) {
	unsaved, err := command.UnsavedStates(dir)
	return slices.ContainsFunc(unsaved, func(state command.UnsavedState) bool { return hasResources(state.Content) }), err
}

// pushTimeout is how long a run tries to push a state that its tool could not save.
// The state is safe in Secrets by then, and the next run tries again.
const pushTimeout = 5 * time.Minute

// performOnBackend performs the operation with a backend that the tool reads, writes
// and locks.
func (r *Runner) performOnBackend(ctx context.Context, run *execution) error {
	err := r.breakingLock(ctx, run, func() error {
		if err := r.pushRescued(ctx, run); err != nil {
			return err
		}
		if err := r.workdir.SetOwner(run.request.Workspace.UID); err != nil {
			return err
		}
		if err := r.verifyBackend(ctx, run); err != nil {
			return err
		}
		return r.perform(ctx, run)
	})
	saved, rescueErr := r.rescueAfter(context.WithoutCancel(ctx), run)
	if err != nil && (run.creates || run.result.ChangesState()) {
		r.observeBackend(ctx, run)
	}
	if rescueErr != nil {
		return errors.Join(err, rescueErr)
	}
	if saved {
		return errSavedLate
	}
	return err
}

// observeTimeout is how long a failed run tries to read its state for the result.
const observeTimeout = time.Minute

// observeBackend adds the state to the result of a run that failed after it may have
// changed the state.
func (r *Runner) observeBackend(ctx context.Context, run *execution) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
	defer cancel()
	text, err := run.session.StatePull(ctx)
	if err == nil {
		var state *command.State
		if state, err = command.ParseState(text); err == nil {
			run.result.State = state.StateInfo
		}
	}
	unsaved, unsavedErr := command.UnsavedStates(r.workdir.Dir)
	rescued := run.result.Rescued != "" && !slices.Contains(run.result.Saved, run.result.Rescued)
	run.result.StateUncertain = err != nil || rescued || unsavedErr != nil || len(unsaved) > 0
}

// verifyBackend compares the state in the backend with the known one. A new state is
// written at once, and its lineage is recorded: if the run is lost, the next one
// knows what it may have written to.
func (r *Runner) verifyBackend(ctx context.Context, run *execution) error {
	text, err := run.session.StatePull(ctx)
	if err != nil {
		return err
	}
	if err := run.verifyState(text, "backend "+run.request.Backend.Type); err != nil {
		return err
	}
	if run.readsOnly() {
		return nil
	}
	if run.result.State.Lineage == "" && run.needsKnownState() {
		run.creates = true
		if err := run.session.StatePush(ctx, command.NewState(uuid.NewString(), run.request.Workspace.Owner()), false); err != nil {
			return err
		}
		// The tool chooses the lineage of a new state.
		if text, err = run.session.StatePull(ctx); err != nil {
			return err
		}
		if run.result.State, err = command.Identify(text); err != nil {
			return err
		}
	}
	if run.result.State.Lineage == "" {
		return nil
	}
	patch, err := record.StatePatch(run.result.State)
	if err != nil {
		return err
	}
	return wrap("recording the state", r.patchRun(ctx, patch))
}

// pushRescued pushes the states that earlier runs could not save: those in the
// working directory, and those in Secrets.
func (r *Runner) pushRescued(ctx context.Context, run *execution) error {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		left := rescuedState{UnsavedState: state, workspace: r.workdir.Owner()}
		pushed, err := r.pushState(ctx, run, left, r.ownsDirectory(run))
		if err != nil {
			return err
		}
		name := record.RescueName(r.RunID, state.Content)
		switch {
		case pushed && run.result.Rescued == name:
			run.result.Saved = append(run.result.Saved, name)
		case !pushed && hasResources(state.Content):
			if err := r.storeRescued(ctx, run, state.Content, state.Bases); err != nil {
				return err
			}
		}
		if err := state.Remove(); err != nil {
			return err
		}
	}
	return r.eachRescued(ctx, run, func(_ string, state rescuedState) (bool, error) { return r.pushState(ctx, run, state, false) })
}

// pushState pushes a rescued state if it continues the state in the backend, and
// reports whether the backend has it now. Own means that the workspace has left it. A push increments the serial, so that a
// state that was pushed before has a lower serial than the one in the backend.
func (r *Runner) pushState(ctx context.Context, run *execution, left rescuedState, own bool) (bool, error) {
	content := left.Content
	text, err := run.session.StatePull(ctx)
	if err != nil {
		return false, err
	}
	current, err := command.ParseState(text)
	if err != nil {
		return false, err
	}
	rescued, err := command.Identify(content)
	if err != nil {
		run.printf("A rescued state cannot be read: %v", err)
		return false, nil
	}
	if decrypted, err := run.decrypted(ctx, content); err == nil {
		content = decrypted
	} else if rescued.Lineage == current.Lineage && rescued.Serial > current.Serial {
		// A plan without this state would create its resources again.
		return false, terminal("Rescued state cannot be decrypted", fmt.Errorf("the state %s of an earlier run could not be saved and is newer than the state in the backend: restore its encryption key, or decrypt it and run captctl state push: %w", rescued.Version(), err))
	}
	switch {
	case current.Lineage == "" && run.result.State.Lineage == "" && !own && !run.mayHaveLeft(left):
		run.printf("The rescued state %s is not that of this workspace", rescued.Version())
		return false, nil
	case current.Lineage == rescued.Lineage && sameResources(text, content):
		return true, nil
	case current.Lineage != "" && (current.Lineage != rescued.Lineage || current.Serial >= rescued.Serial):
		run.printf("The rescued state %s does not continue the state %s in the backend", rescued.Version(), current.Version())
		return false, nil
	}
	run.printf("Saving the state that an earlier run could not save")
	if current.Lineage == "" {
		return true, run.session.StateCreate(ctx, content, run.request.Workspace.Owner())
	}
	// The tool does not tell on which state its own is based. Another run may have written
	// the one in the backend since an earlier run left this one.
	if !run.result.ChangesState() {
		if err := r.snapshot(ctx, run); err != nil {
			return false, err
		}
	}
	return true, run.session.StatePush(ctx, content, false)
}

// sameResources reports whether two states have the same resources and outputs.
func sameResources(a, b []byte) bool {
	type content struct{ Resources, Outputs json.RawMessage }
	var x, y content
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return equalJSON(x.Resources, y.Resources) && equalJSON(x.Outputs, y.Outputs)
}

// rescueAfter saves the state that the operation could not save, and reports whether
// there was one. It stores the state in Secrets before anything else, because the
// cause, such as an expired credential, may outlive the run.
func (r *Runner) rescueAfter(ctx context.Context, run *execution) (bool, error) {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	if err != nil || len(unsaved) == 0 {
		return false, err
	}
	// Without Secrets the backend is the only place for the state, which a pod takes with
	// it, so the run does not end before one of them has it.
	timeout := saveTimeout
	if !inPod() {
		// The next run finds the file.
		timeout = pushTimeout
	}
	var stored time.Time
	reported := false
	err = retry(ctx, timeout, "saving the state", isMissing, func(ctx context.Context) error {
		var storeErr error
		if stored.IsZero() {
			if storeErr = r.tryStoreUnsaved(ctx, run); storeErr == nil {
				stored = time.Now()
			} else if !reported {
				reported = true
				run.printf("The state can be stored neither in its backend nor in Secrets: %v", storeErr)
			}
		}
		err := r.breakingLock(ctx, run, func() error { return r.pushRescued(ctx, run) })
		switch failure := command.AsFailure(err); {
		case err == nil:
			return nil
		case storeErr != nil:
			return errors.Join(err, storeErr)
		case failure != nil && (failure.StateTooLarge || failure.Class == terraform.ClassTerminal), time.Since(stored) > pushTimeout:
			return &permanentError{err}
		}
		return err
	})
	return err == nil, err
}

// storeUnsaved stores the unsaved states of the working directory in Secrets.
func (r *Runner) storeUnsaved(ctx context.Context, run *execution) error {
	return persist(ctx, "storing a rescued state", func(ctx context.Context) error { return r.tryStoreUnsaved(ctx, run) })
}

// tryStoreUnsaved is one attempt of storeUnsaved.
func (r *Runner) tryStoreUnsaved(ctx context.Context, run *execution) error {
	unsaved, err := command.UnsavedStates(r.workdir.Dir)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		if err := r.tryRescue(ctx, run, state.Content, state.Bases); err != nil {
			return err
		}
	}
	return nil
}
