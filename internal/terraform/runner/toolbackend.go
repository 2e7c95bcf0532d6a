package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// pushTimeout is how long a run tries to push a state that its tool could not save.
// The state is safe in Secrets by then, and the next run tries again.
const pushTimeout = 5 * time.Minute

// observeTimeout is how long a failed run tries to read its state for the result.
const observeTimeout = time.Minute

// performOnBackend performs the operation with a backend that the tool reads, writes
// and locks.
func (r *Runner) performOnBackend(ctx context.Context, run *execution) error {
	err := r.inTool.breakingLock(ctx, run, func() error {
		if err := r.inTool.pushRescued(ctx, run); err != nil {
			return err
		}
		if err := r.workdir.SetOwner(run.request.Workspace.UID); err != nil {
			return err
		}
		if err := r.inTool.verifyBackend(ctx, run); err != nil {
			return err
		}
		return r.perform(ctx, run)
	})
	saved, rescueErr := r.inTool.rescueAfter(context.WithoutCancel(ctx), run)
	if err != nil && run.result.StateProblem == "" && (run.creates || run.result.ChangesState()) {
		r.inTool.observeBackend(ctx, run)
	}
	if rescueErr != nil {
		return errors.Join(err, rescueErr)
	}
	if saved {
		return errSavedLate
	}
	return err
}

// toolBackend verifies and saves states in a backend that the tool reads, writes and locks.
type toolBackend struct {
	rescue  *rescuer
	workdir *command.Workdir
}

// observeBackend adds the state to the result of a run that failed after it may have
// changed the state.
func (b *toolBackend) observeBackend(ctx context.Context, run *execution) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
	defer cancel()
	text, err := run.session.StatePull(ctx)
	if err == nil {
		var state *statefile.State
		if state, err = statefile.Parse(text); err == nil {
			run.result.State = state.StateInfo
		}
	}
	unsaved, unsavedErr := command.UnsavedStates(b.workdir.Dir)
	rescued := run.result.Rescued != "" && !slices.Contains(run.result.Saved, run.result.Rescued)
	run.result.StateUncertain = err != nil || rescued || unsavedErr != nil || len(unsaved) > 0
}

// verifyBackend compares the state in the backend with the known one. A new state is
// written at once, and its lineage is recorded: if the run is lost, the next one
// knows what it may have written to.
func (b *toolBackend) verifyBackend(ctx context.Context, run *execution) error {
	text, err := run.session.StatePull(ctx)
	if err != nil {
		return err
	}
	if err := run.verifyState(text, run.location()); err != nil {
		return err
	}
	if run.readsOnly() {
		return nil
	}
	if run.result.State.Lineage == "" && run.needsKnownState() {
		run.creates = true
		if err := run.session.StatePush(ctx, statefile.New(uuid.NewString(), run.request.Workspace.Owner()), false); err != nil {
			return err
		}
		// The tool chooses the lineage of a new state. Without locks, another new workspace
		// with the same key may have replaced the state.
		if text, err = run.session.StatePull(ctx); err != nil {
			return err
		}
		if err := run.verifyState(text, run.location()); err != nil {
			return err
		}
		if run.result.State.Lineage == "" {
			return fmt.Errorf("%s does not have the state that was written to it", run.location())
		}
	}
	if run.result.State.Lineage == "" {
		return nil
	}
	patch, err := record.StatePatch(run.result.State)
	if err != nil {
		return err
	}
	return wrap("recording the state", b.rescue.secret.patch(ctx, patch))
}

// pushRescued pushes the states that earlier runs could not save: those in the
// working directory, and those in Secrets.
func (b *toolBackend) pushRescued(ctx context.Context, run *execution) error {
	unsaved, err := b.rescue.leftInDir(run)
	if err != nil {
		return err
	}
	for _, state := range unsaved {
		name := record.RescueName(b.rescue.storage.runID, state.Content)
		state.name = name
		pushed, err := b.pushState(ctx, run, state)
		if err != nil {
			return err
		}
		switch {
		case pushed && run.result.Rescued == name:
			run.result.Saved = append(run.result.Saved, name)
		case !pushed && hasResources(state.Content):
			if err := b.rescue.storeRescued(ctx, run, state.Content, state.Bases); err != nil {
				return err
			}
		}
		if err := state.Remove(); err != nil {
			return err
		}
	}
	return b.rescue.eachRescued(ctx, run, func(state leftState) (bool, error) { return b.pushState(ctx, run, state) })
}

// pushState pushes a rescued state if it continues the state in the backend, and
// reports whether the backend has it now. A push increments the serial, so that a state that
// was pushed before has a lower serial than the one in the backend.
func (b *toolBackend) pushState(ctx context.Context, run *execution, left leftState) (bool, error) {
	content := left.Content
	text, err := run.session.StatePull(ctx)
	if err != nil {
		return false, err
	}
	current, err := statefile.Parse(text)
	if err != nil {
		return false, err
	}
	rescued, err := statefile.Identify(content)
	if err != nil {
		run.printf("A rescued state cannot be read: %v", err)
		run.cannotMerge(left.name, content, text)
		return false, nil
	}
	if decrypted, err := run.decrypted(ctx, content); err == nil {
		content = decrypted
	} else if rescued.Lineage == current.Lineage && rescued.Serial > current.Serial {
		// A plan without this state would create its resources again.
		return false, terminal("Rescued state cannot be decrypted", fmt.Errorf("the state %s of an earlier run could not be saved and is newer than the state in the backend: restore its encryption key, or decrypt it and run captctl state push: %w", rescued.Version(), err))
	}
	switch {
	case current.Lineage == "" && run.result.State.Lineage == "" && !run.mayHaveLeft(left):
		run.printf("The rescued state %s is not that of this workspace", rescued.Version())
		run.cannotMerge(left.name, content, text)
		return false, nil
	case current.Lineage == rescued.Lineage && sameResources(text, content):
		return true, nil
	case current.Lineage != "" && (current.Lineage != rescued.Lineage || current.Serial >= rescued.Serial):
		run.printf("The rescued state %s does not continue the state %s in the backend", rescued.Version(), current.Version())
		run.cannotMerge(left.name, content, text)
		return false, nil
	}
	run.printf("Saving the state that an earlier run could not save")
	if current.Lineage == "" {
		return true, run.session.StateCreate(ctx, content, run.request.Workspace.Owner())
	}
	// The tool does not tell on which state its own is based. Another run may have written
	// the one in the backend since an earlier run left this one.
	if !run.result.ChangesState() {
		if err := b.rescue.storage.snapshot(ctx, run); err != nil {
			return false, err
		}
	}
	return true, run.session.StatePush(ctx, content, false)
}

// rescueAfter saves the state that the operation could not save, and reports whether
// there was one. It stores the state in Secrets before anything else, because the
// cause, such as an expired credential, may outlive the run.
func (b *toolBackend) rescueAfter(ctx context.Context, run *execution) (bool, error) {
	unsaved, err := command.UnsavedStates(b.workdir.Dir)
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
	err = retry(ctx, timeout, "saving the state", apierrors.IsNotFound, func(ctx context.Context) error {
		var storeErr error
		if stored.IsZero() {
			if storeErr = b.rescue.storeUnsaved(ctx, run); storeErr == nil {
				stored = time.Now()
			} else if !reported {
				reported = true
				run.printf("The state can be stored neither in its backend nor in Secrets: %v", storeErr)
			}
		}
		err := b.breakingLock(ctx, run, func() error { return b.pushRescued(ctx, run) })
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

// breakingLock calls perform. If that fails because of a lock that may be broken, it
// breaks the lock and calls perform once more. This applies only to backends that
// the tool locks.
func (b *toolBackend) breakingLock(ctx context.Context, run *execution, perform func() error) error {
	err := perform()
	failure := command.AsFailure(err)
	if failure == nil || failure.Lock == nil || run.locked || !canBreakLock(run.request, *failure.Lock) {
		return err
	}
	run.printf("Breaking the lock %s of %s", failure.Lock.ID, failure.Lock.Who)
	if err := run.session.ForceUnlock(ctx, failure.Lock.ID); err != nil {
		return err
	}
	return perform()
}
