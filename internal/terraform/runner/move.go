package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// moveState copies the state from the backend that has it to the one of the request,
// and verifies the copy. It never changes the state in the first backend, which
// stays in use until the run has succeeded: a run that ends at any point can be
// repeated.
func (r *Runner) moveState(ctx context.Context, run *execution) error {
	from := run.request.From
	from.RunID, from.Workspace, from.Operation, from.Module = run.request.RunID, run.request.Workspace, run.request.Operation, run.request.Module
	source := &execution{request: from, result: run.result, report: run.report}
	unlock, err := r.lockState(ctx, source)
	if err != nil {
		return err
	}
	defer unlock()
	content, err := r.readSource(ctx, source)
	if err != nil {
		return err
	}
	run.result.State = terraform.StateInfo{}
	unlockTarget, err := r.lockState(ctx, run)
	if err != nil {
		return err
	}
	defer unlockTarget()
	if err := r.prepare(ctx, run); err != nil {
		return err
	}
	run.report.enter(terraform.PhaseWritingState)
	started := time.Now()
	err = r.inTool.breakingLock(ctx, run, func() error { return r.writeTarget(ctx, run, content) })
	run.phase(terraform.PhaseWritingState, started)
	if run.state != nil {
		// Whatever is in the file is also in the other backend.
		err = errors.Join(err, run.session.RemoveState())
	}
	if err != nil {
		return err
	}
	run.result.Outcome = terraform.OutcomeSucceeded
	return nil
}

// readSource returns the decrypted state of the backend that has it. It saves the
// states that earlier runs left, compares the state with the known one, and stores a
// snapshot.
func (r *Runner) readSource(ctx context.Context, source *execution) ([]byte, error) {
	if err := r.prepare(ctx, source); err != nil {
		return nil, err
	}
	if source.locked {
		if err := r.inSecret.openState(ctx, source); err != nil {
			return nil, err
		}
	} else if err := r.inTool.breakingLock(ctx, source, func() error { return r.inTool.pushRescued(ctx, source) }); err != nil {
		return nil, err
	}
	// The tool writes both copies in the same form, so that they can be compared.
	content, err := source.session.StatePull(ctx)
	if err != nil {
		return nil, err
	}
	if !source.locked {
		if err := source.verifyState(content, source.location()); err != nil {
			return nil, err
		}
	}
	if state, err := statefile.Parse(content); err != nil {
		return nil, err
	} else if state.Lineage == "" {
		return nil, terminal("No state", fmt.Errorf("backend %s has no state that could be moved", source.request.Backend.Type))
	}
	if err := r.storage.snapshot(ctx, source); err != nil {
		return nil, err
	}
	if source.locked {
		return content, source.session.RemoveState()
	}
	return content, nil
}

// writeTarget writes a state to the backend of the run, unless it is already there,
// and reads it back.
func (r *Runner) writeTarget(ctx context.Context, run *execution, content []byte) error {
	source, err := statefile.Parse(content)
	if err != nil {
		return err
	}
	target, text, err := r.readTarget(ctx, run)
	if err != nil {
		return err
	}
	location := run.location()
	if target.Lineage != source.Lineage || target.Serial < source.Serial || !sameResources(text, content) {
		if problem := terraform.CheckTarget(source.StateInfo, target.StateInfo, run.request.Workspace.Owner()); problem != "" {
			return terminal("State not moved", fmt.Errorf("the state cannot be moved to %s: %s", location, problem))
		}
		run.printf("Writing state %s to %s", source.Version(), location)
		if err := r.pushTarget(ctx, run, content, target.Lineage == ""); err != nil {
			return err
		}
		if target, text, err = r.readTarget(ctx, run); err != nil {
			return err
		}
	}
	if target.Lineage != source.Lineage || target.Serial < source.Serial || target.Resources != source.Resources || !sameResources(text, content) {
		return fmt.Errorf("moving the state: %s has %s with %d resources after writing %s with %d resources",
			location, target.Version(), target.Resources, source.Version(), source.Resources)
	}
	run.printf("The state in %s is %s with %d resources", location, target.Version(), target.Resources)
	run.result.State = target.StateInfo
	return nil
}

// readTarget reads the state in the backend of the run.
func (r *Runner) readTarget(ctx context.Context, run *execution) (*statefile.State, []byte, error) {
	if run.locked {
		run.state = newSavedState(r.kube, run)
		if err := run.state.read(ctx); err != nil {
			return nil, nil, err
		}
		if err := run.session.WriteState(run.state.current()); err != nil {
			return nil, nil, err
		}
	}
	text, err := run.session.StatePull(ctx)
	if err != nil {
		return nil, nil, err
	}
	state, err := statefile.Parse(text)
	return state, text, err
}

// pushTarget replaces the state in the backend of the run. The tool encrypts it if
// the target is configured so.
func (r *Runner) pushTarget(ctx context.Context, run *execution, content []byte, first bool) error {
	var err error
	if first {
		err = run.session.StateCreate(ctx, content, run.request.Workspace.Owner())
	} else {
		err = run.session.StatePush(ctx, content, true)
	}
	if err != nil {
		return err
	}
	if !run.locked {
		return nil
	}
	err = run.state.sync(ctx)
	if err != nil && stateTooLarge(err) {
		run.result.StateTooLarge = true
		return terminal("State too large", err)
	}
	return err
}
