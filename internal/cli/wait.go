package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/message"
)

// What may still happen if a wait ends early.
const (
	runRequested     = "the run was requested and may still be executed"
	commandRequested = "the command was requested and may still be executed"
	moveRequested    = "the move was requested and may still be executed"
	restoreRequested = "the restore was requested and may still be executed"
	checkRequested   = "the check was requested and may still be executed"
	cancelRequested  = "the cancellation was requested and may still happen"
	planApproved     = "the plan is approved and may still be applied"
	planFollows      = "the state is changed, and a plan follows"
)

// starting is the line of a wait for a run.
func (o *Options) starting() string {
	return "Waiting until the manager starts the run; if it does not, " + o.hints("see captctl doctor")
}

// waitForResult waits until a workspace is done and prints the result. The request is what may
// still happen if the wait ends early. The operation may be nil.
func (w *workspaceCall) waitForResult(ctx context.Context, operation *infrav1.WorkspaceOperation, line, request string, done func(*observed) bool) error {
	last, err := w.waitUntil(ctx, operation, line, done)
	if a := last.apply; errors.Is(err, operate.ErrDeleted) && a != nil && !a.DeletionTimestamp.IsZero() {
		fmt.Fprintf(w.Out, "%s is deleted\n", a.Name)
		return nil
	}
	if err != nil {
		return w.stillRequested(err, request)
	}
	return last.print(w.Options)
}

// observed is the latest state of a workspace, and of the operation that is waited for, which may
// be nil.
type observed struct {
	apply     *infrav1.WorkspaceTemplateApply
	operation *infrav1.WorkspaceOperation
}

// tried reports whether the operation has ended without a run, or the workspace shows the result
// of its latest run.
func (s *observed) tried() bool {
	run := s.operation.Status.Run
	if run == "" {
		return s.operation.Ended()
	}
	return slices.ContainsFunc(s.apply.Status.History, func(past infrav1.RunRecord) bool { return past.ID == run })
}

// ended reports whether the operation has ended, and the workspace shows the result.
func (s *observed) ended() bool { return s.operation.Ended() && s.tried() }

// waits reports whether the plan of the operation waits for approval.
func (s *observed) waits() bool {
	return s.operation.Status.Phase == infrav1.OperationWaitingForApproval && s.tried()
}

// planned reports whether the run after a change of the state is finished. A status of an earlier
// generation does not have it.
func (s *observed) planned() bool {
	status := &s.apply.Status
	return status.Run == nil && status.ObservedGeneration == s.apply.Generation && (status.AppliedInputs != "" || status.Plan != nil || status.Failure != nil)
}

// refused returns why no run executed the operation, or nil.
func (s *observed) refused() error {
	if o := s.operation; o != nil && o.Ended() && o.Status.Run == "" && o.Status.Phase != infrav1.OperationSucceeded {
		return fmt.Errorf("operation %s of %s: %s: %s", o.Name, s.apply.Name, o.Status.Phase, message.OneLine(o.Status.Message))
	}
	return nil
}

// print prints what became of a workspace. It returns an error if it is neither applied nor
// waiting for approval.
func (s *observed) print(o *Options) error {
	if err := s.refused(); err != nil {
		return err
	}
	applied := operate.Progress(s.apply)
	switch {
	case applied == nil:
		return nil
	case applied.Status == metav1.ConditionTrue && !s.apply.DeletionTimestamp.IsZero():
		fmt.Fprintf(o.Out, "%s is destroyed\n", s.apply.Name)
		return nil
	case applied.Status == metav1.ConditionTrue:
		fmt.Fprintf(o.Out, "%s is applied: %s\n", s.apply.Name, message.OneLine(applied.Message))
		return nil
	case applied.Reason == infrav1.WaitingForApprovalReason:
		fmt.Fprintf(o.Out, "%s is waiting for approval: review the plan with %s\n", s.apply.Name, o.hints("captctl show plan "+s.apply.Name))
		return nil
	default:
		return fmt.Errorf("%s: %s: %s", s.apply.Name, applied.Reason, applied.Message)
	}
}

// errWithdrawn reports that another user has deleted the operation that is waited for.
var errWithdrawn = errors.New("the operation was deleted")

// waitUntil shows the progress of a workspace until it or the operation is done, and returns what
// it observed last. It fails if the workspace cannot start a run before a user changes something.
// The line is shown while nothing else is known.
func (w *workspaceCall) waitUntil(ctx context.Context, operation *infrav1.WorkspaceOperation, line string, done func(*observed) bool) (*observed, error) {
	p := w.progress()
	defer p.end()
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	blocked := &blockedTimer{cancel: cancel}
	defer blocked.observe(nil, "")
	var mu sync.Mutex
	isDone, last := false, &observed{operation: operation}
	// change is called when the workspace or the operation has changed.
	change := func(set func()) bool {
		mu.Lock()
		defer mu.Unlock()
		set()
		switch {
		case last.apply == nil:
		case done(last):
			isDone = true
			cancel(nil)
		default:
			line = cmp.Or(last.line(), line)
			p.show(line)
		}
		return isDone
	}
	watches, watched := errgroup.WithContext(watched)
	watches.Go(func() error {
		report := func(since time.Time, err error) {
			// What is known may not be true any more. The next observation starts the timer again.
			blocked.observe(nil, "")
			p.outage(since, err)
		}
		return operate.Watch(watched, w.client, &infrav1.WorkspaceTemplateApplyList{}, w.apply, report, func(a *infrav1.WorkspaceTemplateApply) (bool, error) {
			if err := operate.CheckNotPaused(a); err != nil {
				return false, err
			}
			blocked.observe(operate.Blocker(a), a.Name)
			return change(func() { last.apply = a }), nil
		})
	})
	if operation != nil {
		watches.Go(func() error {
			err := operate.Watch(watched, w.client, &infrav1.WorkspaceOperationList{}, operation, nil, func(current *infrav1.WorkspaceOperation) (bool, error) {
				return change(func() { last.operation = current }), nil
			})
			// It is deleted with its workspace.
			if errors.Is(err, operate.ErrDeleted) && w.client.Get(watched, client.ObjectKeyFromObject(w.apply), w.apply.DeepCopy()) == nil {
				err = errWithdrawn
			}
			return err
		})
	}
	err := watches.Wait()
	if reason, ok := errors.AsType[*blockedError](context.Cause(watched)); ok {
		err = reason
	}
	if isDone {
		err = nil
	}
	return last, err
}

// line describes what the workspace does, or what it or the operation waits for, or is empty if
// that is not known.
func (s *observed) line() string {
	apply := s.apply
	if run := apply.Status.Run; run != nil {
		return describe.Line(describe.RunNode(run), time.Time{})
	}
	if blocker := operate.Blocker(apply); blocker != nil {
		return blocker.Reason + ": " + message.OneLine(blocker.Message)
	}
	if shell := apply.Status.Shell; shell.Open() {
		return infrav1.ShellOpenReason + ": a run waits until shell " + shellOwner(shell) + " is closed"
	}
	if s.operation != nil && s.operation.Status.Message != "" {
		return message.OneLine(s.operation.Status.Message)
	}
	// The plan of an earlier run waits for approval until the request replaces or approves it.
	if c := operate.Progress(apply); c != nil && c.Status != metav1.ConditionTrue && c.Reason != infrav1.WaitingForApprovalReason {
		return c.Reason + ": " + message.OneLine(c.Message)
	}
	return ""
}

// shellOwner returns the ID of a shell, with who opened it and where.
func shellOwner(shell *infrav1.ShellStatus) string {
	text := shell.ID
	if shell.By != "" {
		text += " of " + shell.By
	}
	if shell.Host != "" {
		text += " on " + shell.Host
	}
	return message.OneLine(text)
}

// requestedError is the error of a wait whose request stays. No explanation of the cause may
// replace that.
type requestedError struct {
	error
	request string
}

func (e *requestedError) Error() string { return e.error.Error() + "; " + e.request }

func (e *requestedError) Unwrap() error { return e.error }

// stillRequested adds to the error of a wait that the request stays. An interrupt has no
// other text.
func (o *Options) stillRequested(err error, request string) error {
	switch {
	case errors.Is(err, operate.ErrDeleted), errors.Is(err, errWithdrawn):
		return err
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(o.Err, "Interrupted: %s\n", request)
		return err
	default:
		return &requestedError{err, request}
	}
}

// blockedFor is how long a wait continues for a workspace that cannot start a run before a
// user changes something. The user may have changed it just before the command, and the
// manager then needs a moment to notice.
const blockedFor = 10 * time.Second

// blockedError is the error for a workspace that cannot start a run.
type blockedError struct{ error }

// blockedTimer ends a wait if a workspace cannot start a run for a while.
type blockedTimer struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	reason string
}

// observe starts the timer for a new reason that a user must remove, and stops it without
// one.
func (b *blockedTimer) observe(blocker *metav1.Condition, name string) {
	reason := ""
	if operate.NeedsUser(blocker) {
		reason = fmt.Sprintf("%s cannot start a run: %s: %s", name, blocker.Reason, message.OneLine(blocker.Message))
	}
	if reason == b.reason {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.reason = reason; reason != "" {
		b.timer = time.AfterFunc(blockedFor, func() { b.cancel(&blockedError{errors.New(reason)}) })
	}
}
