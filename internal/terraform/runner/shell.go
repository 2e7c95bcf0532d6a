package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// Shell locks the state, takes a snapshot of it, prepares the working directory and calls
// enter. Changes of the state are saved while enter works, and the lock is released
// afterwards. Unlike a run, it has no Secret with a request and a result, and the user's
// own permissions apply. Config.RunID is the holder of the lock.
func Shell(ctx context.Context, config Config, request *terraform.Request, enter func(ctx context.Context, session *command.Session) error) (*terraform.Result, error) {
	kube, err := newKube(config.API)
	if err != nil {
		return nil, err
	}
	request.Operation, request.RunID = terraform.OperationShell, config.RunID
	run := &execution{
		request: request, enter: enter, report: newReport(),
		result: &terraform.Result{RunID: config.RunID, Operation: request.Operation, StartedAt: time.Now()},
	}
	err = (&Runner{Config: config, kube: kube}).execute(ctx, run)
	return run.result, err
}

// shell performs an OperationShell.
func (r *Runner) shell(ctx context.Context, run *execution) error {
	if run.enter == nil {
		return terminal("Not a run", errors.New("a shell runs on the machine of its user: use captctl shell"))
	}
	if err := r.snapshot(ctx, run); err != nil {
		return err
	}
	err := run.enter(ctx, run.session)
	// A tool that the user left in the background writes the state.
	return errors.Join(err, r.workdir.Tool.AwaitEnd(ctx, r.workdir.Dir, nil, cmp.Or(run.request.Grace, shellGrace)))
}

// shellGrace is how long a tool that was left in the background has to end.
const shellGrace = 10 * time.Minute
