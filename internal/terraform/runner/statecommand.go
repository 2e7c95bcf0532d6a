package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// readsOnly reports whether the run never changes the state. It may read a state
// that the workspace must not use, so it does not report the state.
func (run *execution) readsOnly() bool {
	return run.request.Operation == terraform.OperationStateCommand && !run.request.StateCommand.Writes()
}

// needsKnownState reports whether the run stops if the backend does not have the
// state that the workspace used before. A restore and a push are ways out of that.
func (run *execution) needsKnownState() bool { return !run.readsOnly() && !run.replacesState() }

// replacesState reports whether the run replaces the whole state.
func (run *execution) replacesState() bool {
	switch run.request.Operation {
	case terraform.OperationRestoreState:
		return true
	case terraform.OperationStateCommand:
		return run.request.StateCommand.Command == terraform.StatePush
	default:
		return false
	}
}

// stateCommand executes a command of a user.
func (r *Runner) stateCommand(ctx context.Context, run *execution) error {
	cmd := run.request.StateCommand
	var err error
	switch cmd.Command {
	case terraform.StatePull:
		err = r.output(ctx, run, func() (string, error) {
			text, err := run.readState(ctx)
			return string(text), err
		})
	case terraform.StateList:
		err = r.output(ctx, run, func() (string, error) { return run.session.StateList(ctx, cmd.Args) })
	case terraform.StateShow:
		show := run.session.StateShow
		if cmd.JSON {
			show = run.session.StateShowJSON
		}
		err = r.output(ctx, run, func() (string, error) { return show(ctx, cmd.Args[0], cmd.Sensitive) })
	case terraform.StatePush:
		err = r.pushForUser(ctx, run)
	case terraform.StateMv:
		err = r.changeState(ctx, run, func() (err error) {
			run.result.CommandOutput, err = run.session.StateMove(ctx, cmd.Args[0], cmd.Args[1])
			return err
		})
	case terraform.StateRm:
		err = r.changeState(ctx, run, func() (err error) {
			run.result.CommandOutput, err = run.session.StateRemove(ctx, cmd.Args)
			return err
		})
	}
	if err != nil {
		return err
	}
	run.result.Outcome = terraform.OutcomeSucceeded
	if !cmd.Writes() {
		return nil
	}
	return r.reportState(context.WithoutCancel(ctx), run)
}

// reportState adds the changed state to the result.
func (r *Runner) reportState(ctx context.Context, run *execution) error {
	text, err := run.readState(ctx)
	if err != nil {
		return err
	}
	state, err := statefile.Parse(text)
	if err != nil {
		return err
	}
	run.result.State = state.StateInfo
	return nil
}

// output stores the output of a command in Secrets, from which the user reads it. It is
// encrypted for the user, if the command has a public key.
func (r *Runner) output(ctx context.Context, run *execution, read func() (string, error)) error {
	cmd := run.request.StateCommand
	if run.request.Encryption != "" && cmd.PublicKey == "" && cmd.Command != terraform.StateList {
		return terminal("Output not encrypted", fmt.Errorf("the state is encrypted, but the output of state %s would be stored without encryption: use captctl, or set publicKey in the command", cmd.Command))
	}
	text, err := read()
	if err != nil {
		return err
	}
	content := []byte(text)
	if cmd.PublicKey != "" {
		if content, err = record.Seal(cmd.PublicKey, content); err != nil {
			return terminal("Invalid public key", err)
		}
	}
	secrets, err := record.Chunks(record.OutputName(cmd.ID), content, record.LocalMeta(run.request.Workspace, record.ComponentTransfer, r.RunID))
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		err := r.kube.createSecret(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			return terminal("Output exists", fmt.Errorf("the Secret %s exists: repeat the command with another id", secret.Name))
		}
		if err != nil {
			return fmt.Errorf("storing the output: %w", err)
		}
	}
	sum := sha256.Sum256(content)
	run.result.OutputDigest = hex.EncodeToString(sum[:])
	return nil
}

// pushForUser replaces the state by a state that the user stored in Secrets.
func (r *Runner) pushForUser(ctx context.Context, run *execution) error {
	cmd := run.request.StateCommand
	content, first, err := r.storage.load(ctx, run.request.Workspace.Namespace, cmd.Input)
	if isMissingContent(err) {
		return terminal("Input not found", err)
	}
	if err != nil {
		return err
	}
	if !record.BelongsTo(first, run.request.Workspace, record.ComponentTransfer) {
		return terminal("Input not found", fmt.Errorf("%s is not an input of this workspace", first.Name))
	}
	pushed, err := statefile.Parse(content)
	if errors.Is(err, statefile.ErrEncrypted) {
		return terminal("Invalid state", errors.New("the pushed state is encrypted: push a decrypted one, such as captctl state pull writes"))
	}
	if err != nil {
		return terminal("Invalid state", err)
	}
	if problem := terraform.CheckPush(pushed.StateInfo, run.result.State, run.known()); problem != "" && !cmd.Force {
		return terminal("Push refused", errors.New(problem+". Nothing was changed. To replace the state nevertheless, push with --force"))
	}
	return r.changeState(ctx, run, func() error {
		if run.result.State.Lineage == "" {
			return run.session.StateCreate(ctx, content, run.request.Workspace.Owner())
		}
		// An empty state of another lineage is replaced as well.
		return run.session.StatePush(ctx, content, cmd.Force || run.result.State.Lineage != pushed.Lineage)
	})
}

// changeState changes the state, after taking a snapshot of it.
func (r *Runner) changeState(ctx context.Context, run *execution, change func() error) error {
	if err := r.storage.snapshot(ctx, run); err != nil {
		return err
	}
	run.report.enter(terraform.PhaseWritingState)
	started := time.Now()
	err := change()
	run.phase(terraform.PhaseWritingState, started)
	return err
}
