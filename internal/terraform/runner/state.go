package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

const stateKey = "tfstate"

// secretLimit is the size limit of a Secret's data, with room for its metadata.
const secretLimit = 1<<20 - 16<<10

// performOnSecret performs the operation on a file with the state of the Kubernetes
// backend, and saves the file whenever it changes.
func (r *Runner) performOnSecret(ctx context.Context, run *execution) error {
	if err := r.inSecret.openState(ctx, run); err != nil {
		return err
	}
	stop := run.state.start(ctx)
	err := r.perform(ctx, run)
	stop()
	closeErr := r.inSecret.closeState(ctx, run, err)
	run.result.StateUncertain = closeErr != nil || run.incomplete
	if err != nil && closeErr != nil {
		// The failure of the tool determines the outcome.
		run.result.Diagnostics = append(run.result.Diagnostics, diagnostic("State not saved", closeErr.Error())...)
	}
	return errors.Join(err, closeErr)
}

// known returns what earlier runs reported about the state.
func (run *execution) known() terraform.KnownState {
	known := run.request.State
	known.Owner = run.request.Workspace.Owner()
	return known
}

// verifyState returns an error if the state in the backend is not the state that
// the workspace used before.
func (run *execution) verifyState(content []byte, location string) error {
	found, err := statefile.Identify(content)
	if err != nil {
		return err
	}
	if _, err := statefile.Parse(content); errors.Is(err, statefile.ErrEncrypted) {
		found.Resources = max(1, run.request.State.Resources)
	}
	if !run.needsKnownState() {
		if !run.readsOnly() {
			run.result.State = found
		}
		return nil
	}
	known := run.known()
	if problem := known.Compare(found, run.state != nil); problem != "" {
		return run.refuseState(problem, found, location)
	}
	run.result.State = found
	return nil
}

// verifyLineage returns an error if another workspace has replaced the state after the run
// verified it, which is possible without locks. A tool refuses a plan of another lineage than
// that of the state, so that this is the last state which a run compares.
func (run *execution) verifyLineage(found terraform.StateInfo) error {
	if verified := run.result.State.Lineage; run.state != nil || verified == "" || found.Lineage == verified {
		return nil
	}
	return run.refuseState(terraform.StateForeign, found, run.location())
}

// refuseState returns the error of a run that found another state than its own.
func (run *execution) refuseState(problem terraform.StateProblem, found terraform.StateInfo, location string) error {
	run.result.StateProblem = problem
	return terminal("Unexpected state", errors.New(problem.Explain(run.known(), found, location)))
}

// location returns the name of a backend that the tool reads and writes, for messages.
func (run *execution) location() string { return "backend " + run.request.Backend.Type }

// checkFile returns an error if an apply left no state. OpenTofu ignores that it cannot
// open its state file.
func (run *execution) checkFile(performErr error) error {
	if !run.result.ChangesState() || performErr != nil {
		return nil
	}
	info, err := os.Stat(run.session.StateFile())
	if err == nil && info.Size() > 0 {
		return nil
	}
	return fmt.Errorf("the tool left no state after it changed resources: %w", errors.Join(err, errors.New("the state file is missing or empty")))
}

// observeState adds the saved state to the result. The tool must count the resources
// of an encrypted state.
func (run *execution) observeState(ctx context.Context) {
	content := run.state.current()
	info, err := statefile.Identify(content)
	if err != nil || info == (terraform.StateInfo{}) || info.Version() == run.result.State.Version() {
		return
	}
	if _, err := statefile.Parse(content); errors.Is(err, statefile.ErrEncrypted) {
		info.Resources = max(1, run.request.State.Resources)
		if run.request.Operation == terraform.OperationSaveState {
			// There is no module that configures the encryption.
		} else if text, err := run.session.StatePull(ctx); err == nil {
			if decrypted, err := statefile.Parse(text); err == nil {
				info.Resources = decrypted.Resources
			}
		}
	}
	run.result.State = info
}

// statePersistSeconds is how often the tool saves its state during an apply.
const statePersistSeconds = 20

// inPod reports whether the working directory ends with the pod of the run.
func inPod() bool { return os.Getenv("POD_NAME") != "" }

// stateTooLarge reports whether the API server rejects the state because of its size.
// Any other rejection may come from a policy or a webhook and may be temporary.
func stateTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "Too long")
}

// readState returns the state as JSON. The tool decrypts an encrypted state.
func (run *execution) readState(ctx context.Context) ([]byte, error) {
	text, err := run.rawState(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := statefile.Parse(text); errors.Is(err, statefile.ErrEncrypted) {
		return run.session.StatePull(ctx)
	}
	return text, nil
}

// rawState returns the state as the Kubernetes backend stores it. For other backends
// it returns the decrypted state.
func (run *execution) rawState(ctx context.Context) ([]byte, error) {
	if run.state == nil {
		return run.session.StatePull(ctx)
	}
	content, err := run.session.ReadState()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	return content, nil
}

// replaceState writes a raw state to the backend.
func (run *execution) replaceState(ctx context.Context, raw []byte) error {
	if run.state == nil {
		var err error
		if raw, err = run.decrypted(ctx, raw); err != nil {
			return err
		}
		if run.result.State.Lineage == "" {
			return run.session.StateCreate(ctx, raw, run.request.Workspace.Owner())
		}
		return run.session.StatePush(ctx, raw, true)
	}
	if err := run.state.save(ctx, raw); err != nil {
		return err
	}
	return run.session.WriteState(raw)
}

// decrypted returns a stored state as the tool pushes it.
func (run *execution) decrypted(ctx context.Context, state []byte) ([]byte, error) {
	if _, err := statefile.Parse(state); errors.Is(err, statefile.ErrEncrypted) {
		return run.session.DecryptState(ctx, state)
	}
	return state, nil
}

// maxBases limits the bases of a rescued state: the first ones, and the last, which may have
// been saved.
const maxBases = 500

// bases returns the digests of the saved states that the run's state continues: that which
// it read or saved last, and those that it tried to save. They are unknown if they could
// not be written.
func (run *execution) bases() string {
	bases, err := run.session.Bases()
	if err != nil || bases == "" {
		return ""
	}
	bases += command.BaseOf(run.state.current())
	if run.state.carried != nil {
		bases += command.BaseOf(run.state.carried)
	}
	return bases
}
