package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// secretBackend keeps the state file of a run and the Secret of the Kubernetes backend the
// same.
type secretBackend struct {
	kube    *kube
	rescue  *rescuer
	workdir *command.Workdir
}

// saveUnsaved saves the states that earlier runs left in the working directory. A
// state that does not continue the saved one is outdated, or belongs to a branch
// that only a user can merge: it is kept in Secrets and does not stop the run.
func (b *secretBackend) saveUnsaved(ctx context.Context, run *execution) error {
	unsaved, err := b.rescue.leftInDir(run)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		switch content, saved := state.Content, run.state.current(); {
		case !json.Valid(content):
			run.printf("A state of an earlier run is incomplete, because the tool was killed while it wrote it. The run continues from the saved state")
		case sameState(content, saved):
		case (len(saved) > 0 || run.mayHaveLeft(state)) && state.Continues(saved):
			run.printf("Saving the state that an earlier run could not save")
			if err := b.saveOrCarry(ctx, run, state); err != nil {
				return err
			}
		case hasResources(content):
			run.printf("A state of an earlier run does not continue the saved state")
			if err := b.rescue.storeRescued(ctx, run, content, state.Bases); err != nil {
				return err
			}
			run.cannotMerge(record.RescueName(b.rescue.storage.runID, content), content, saved)
		}
		if err := state.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// saveRescued saves the states that earlier runs stored in Secrets, if they continue
// the saved one. The working directory of a pod is lost with it.
func (b *secretBackend) saveRescued(ctx context.Context, run *execution) error {
	return b.rescue.eachRescued(ctx, run, func(left leftState) (bool, error) {
		saved := run.state.working()
		if sameState(left.Content, saved) {
			return run.state.carried == nil, nil
		}
		if len(saved) == 0 && !run.mayHaveLeft(left) || len(saved) > 0 && !left.Continues(saved) {
			run.cannotMerge(left.name, left.Content, saved)
			return false, nil
		}
		run.printf("Saving the state that an earlier run could not save")
		if err := b.saveOrCarry(ctx, run, left); err != nil {
			return false, err
		}
		return run.state.carried == nil, nil
	})
}

// saveOrCarry saves a state. A state that is too large for its Secret is kept in
// others, and the run works with it nevertheless: only a run can make it smaller.
func (b *secretBackend) saveOrCarry(ctx context.Context, run *execution, left leftState) error {
	bases := left.Bases
	if bases != "" {
		bases += command.BaseOf(run.state.current())
	}
	err := run.state.save(ctx, left.Content)
	if err == nil {
		run.state.carried = nil
	}
	if !stateTooLarge(err) {
		return err
	}
	run.printf("The state is too large for its Secret. The run continues with it")
	name := left.name
	if name == "" {
		name = b.rescue.findRescued(ctx, run, left.Content)
	}
	run.state.carried, run.state.carriedName = left.Content, name
	if name != "" {
		return nil
	}
	run.state.carriedName = record.RescueName(b.rescue.storage.runID, left.Content)
	return b.rescue.storeRescued(ctx, run, left.Content, bases)
}

// openState reads the state and writes it to the file that the tool works on. A
// state that an earlier run could not save replaces it first.
func (b *secretBackend) openState(ctx context.Context, run *execution) error {
	if err := b.readForRun(ctx, run); err != nil {
		return err
	}
	if err := b.saveRescued(ctx, run); err != nil {
		return err
	}
	if err := run.verifyState(run.state.working(), "Secret "+run.request.Backend.StateSecretName()); err != nil {
		return err
	}
	if err := run.session.WriteState(run.state.current()); err != nil || run.state.carried == nil {
		return err
	}
	return run.session.ReplaceState(run.state.carried)
}

// readSaved reads the saved state, and saves what earlier runs left in the working
// directory.
func (b *secretBackend) readSaved(ctx context.Context, run *execution) error {
	run.state = newSavedState(b.kube, run)
	if err := run.state.read(ctx); err != nil {
		return err
	}
	return b.saveUnsaved(ctx, run)
}

// readForRun reads the saved state at the begin of a run, and saves what earlier runs
// of the workspace left in the working directory. A restore or a push replaces a state
// that cannot be read, and keeps a copy of it.
func (b *secretBackend) readForRun(ctx context.Context, run *execution) error {
	run.state = newSavedState(b.kube, run)
	err := run.state.read(ctx)
	var unreadable *unreadableError
	switch {
	case !errors.As(err, &unreadable):
	case run.replacesState():
		run.printf("The state cannot be read: %v", err)
		err = b.rescue.storeRescued(ctx, run, unreadable.content, "")
	default:
		return terminal("Unreadable state", fmt.Errorf("the state in Secret %s cannot be read: %w. Restore a snapshot with captctl state restore, or push a copy with captctl state push", run.request.Backend.StateSecretName(), err))
	}
	if err != nil {
		return err
	}
	if err := b.saveUnsaved(ctx, run); err != nil {
		return err
	}
	return b.workdir.SetOwner(run.request.Workspace.UID)
}

// closeState saves the state file for the last time and removes it. If the backend
// does not accept the state, closeState stores it in other Secrets.
func (b *secretBackend) closeState(ctx context.Context, run *execution, performErr error) error {
	if err := run.checkFile(performErr); err != nil {
		return err
	}
	var err error
	if run.state.printed, err = run.session.PrintedState(); err != nil {
		return err
	}
	if failure := command.AsFailure(performErr); failure != nil && failure.StateUnsaved() {
		unsaved, err := command.UnsavedStates(b.workdir.Dir)
		if err != nil {
			return err
		}
		saved := run.state.current()
		run.incomplete = !slices.ContainsFunc(unsaved, func(state command.UnsavedState) bool { return !sameState(state.Content, saved) })
	}
	err = userOf(ctx).attempt(context.WithoutCancel(ctx), run.state.sync)
	switch {
	case err == nil:
		if run.state.carriedName != "" {
			run.result.Saved = append(run.result.Saved, run.state.carriedName)
			run.state.carried, run.state.carriedName = nil, ""
		}
	case errors.Is(err, errIncomplete):
		if err := b.saveIncomplete(ctx, run); err != nil {
			return err
		}
	default:
		if err := b.saveLate(ctx, run, err); err != nil {
			return err
		}
	}
	// A state that the tool could not write to the file.
	if err := b.saveUnsaved(context.WithoutCancel(ctx), run); err != nil {
		return err
	}
	if run.state.carried != nil {
		run.result.StateTooLarge = true
		return terminal("State too large", fmt.Errorf("the state is only in Secret %s", record.ChunkName(run.state.carriedName, 0)))
	}
	if !run.readsOnly() {
		run.observeState(context.WithoutCancel(ctx))
	}
	return run.session.RemoveState()
}

// saveIncomplete saves the latest complete state of a tool that was killed while it
// wrote the next one.
func (b *secretBackend) saveIncomplete(ctx context.Context, run *execution) error {
	run.printf("The tool was killed while it wrote the state. The state is that of %d s before at most", statePersistSeconds)
	restored, err := run.state.restoreUnsaved()
	if err != nil || !restored {
		run.incomplete = true
		return err
	}
	if err := run.state.sync(context.WithoutCancel(ctx)); err != nil {
		return b.saveLate(ctx, run, err)
	}
	return nil
}

// saveLate saves a state file that could not be saved at once. It stores the state in
// other Secrets first, because the cause may outlive the run.
func (b *secretBackend) saveLate(ctx context.Context, run *execution, cause error) error {
	run.printf("The state could not be saved: %v", cause)
	content, err := run.state.latest()
	if err != nil {
		return errors.Join(cause, err)
	}
	bases := run.bases()
	rescueErr := b.rescue.storeRescued(ctx, run, content, bases)
	if !stateTooLarge(cause) {
		cause = retry(ctx, saveTimeout, "saving the state", stateTooLarge, run.state.sync)
	}
	if cause == nil {
		if rescueErr == nil {
			run.result.Saved = append(run.result.Saved, record.RescueName(b.rescue.storage.runID, content))
		}
		return nil
	}
	if rescueErr != nil && inPod() {
		// There is no other place for it: the pod is deleted with the run.
		rescueErr = retry(ctx, saveTimeout, "storing a rescued state", apierrors.IsNotFound, func(ctx context.Context) error {
			return b.rescue.tryStoreRescued(ctx, run, content, bases)
		})
	}
	if stateTooLarge(cause) {
		run.result.StateTooLarge = true
		cause = terminal("State too large", cause)
	}
	return errors.Join(cause, rescueErr)
}
