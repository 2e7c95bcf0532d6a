package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// ShellOptions is what a shell does with the locked state, and what the user sees of it.
type ShellOptions struct {
	// Enter is called with the prepared working directory.
	Enter func(ctx context.Context, session *command.Session) error
	// Print is called with each line that tells the user what happens.
	Print func(line string)
	// Waiting is called after each failed attempt to save the state or to release
	// the lock, with what is tried and why it failed. It is repeated until GiveUp is closed,
	// for half an hour at most.
	Waiting func(what string, err error)
	GiveUp  <-chan struct{}
}

// LockLeftError is the error if the lock could not be released, or was kept because the
// state is not saved.
type LockLeftError struct{ error }

func (e *LockLeftError) Unwrap() error { return e.error }

// errNotReleased is why a lock is kept.
var errNotReleased = errors.New("the lock is kept, because the state is not saved")

// Shell locks the state, takes a snapshot of it, prepares the working directory and calls
// Enter. Changes of the state are saved while Enter works, and the lock is released
// afterwards, unless the state could not be saved: a run would create what is missing in it
// again. Unlike a run, it has no Secret with a request and a result, and the user's own
// permissions apply. Config.RunID is the holder of the lock. The cancellation of ctx ends
// the preparation.
func Shell(ctx context.Context, config Config, request *terraform.Request, options ShellOptions) (*terraform.Result, error) {
	kube, err := newKube(config.API)
	if err != nil {
		return nil, err
	}
	request.Operation, request.RunID = terraform.OperationShell, config.RunID
	run := &execution{
		request: request, enter: options.Enter, print: options.Print, report: newReport(),
		result: &terraform.Result{RunID: config.RunID, Operation: request.Operation, StartedAt: time.Now()},
	}
	ctx = withUser(ctx, user{waiting: options.Waiting, giveUp: options.GiveUp})
	err = newRunner(config, kube).execute(ctx, run)
	return run.result, errors.Join(err, run.lockErr)
}

// keptState reports whether the state is saved, or stored in Secrets from which the next run
// saves it.
func (run *execution) keptState() bool {
	return !run.result.StateUncertain || !run.incomplete && run.result.Rescued != ""
}

// shell performs an OperationShell.
func (r *Runner) shell(ctx context.Context, run *execution) error {
	if run.enter == nil {
		return terminal("Not a run", errors.New("a shell runs on the machine of its user: use captctl shell"))
	}
	if err := r.storage.snapshot(ctx, run); err != nil {
		return err
	}
	err := run.enter(ctx, run.session)
	// A tool that the user left in the background writes the state.
	if pids := r.workdir.Tool.Running(r.workdir.Dir); len(pids) > 0 {
		run.printf("Waiting for the end of the tool in the background (process %d)", pids[0])
	}
	return errors.Join(err, r.workdir.Tool.AwaitEnd(ctx, r.workdir.Dir, nil, binary.Patience{Grace: cmp.Or(run.request.Grace, shellGrace)}))
}

// shellGrace is how long a tool that was left in the background has to end.
const shellGrace = 10 * time.Minute
