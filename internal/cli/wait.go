package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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

// waitForResult waits until a workspace is done and prints the result. It returns
// an error if the workspace is then neither applied nor waiting for approval. The request
// is what may still happen if the wait ends early.
func (o *Options) waitForResult(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, request string, done func(*infrav1.WorkspaceTemplateApply) bool) error {
	last, err := o.waitUntil(ctx, c, apply, done)
	if errors.Is(err, operate.ErrDeleted) && last != nil && !last.DeletionTimestamp.IsZero() {
		fmt.Fprintf(o.Out, "%s is deleted\n", last.Name)
		return nil
	}
	if err != nil {
		return o.stillRequested(err, request)
	}
	applied := operate.Progress(last)
	switch {
	case applied == nil:
		return nil
	case applied.Status == metav1.ConditionTrue && !last.DeletionTimestamp.IsZero():
		fmt.Fprintf(o.Out, "%s is destroyed\n", last.Name)
		return nil
	case applied.Status == metav1.ConditionTrue:
		fmt.Fprintf(o.Out, "%s is applied: %s\n", last.Name, message.OneLine(applied.Message))
		return nil
	case applied.Reason == infrav1.WaitingForApprovalReason:
		fmt.Fprintf(o.Out, "%s is waiting for approval: review the plan with %s\n", last.Name, o.hints("captctl plan "+last.Name))
		return nil
	default:
		return fmt.Errorf("%s: %s: %s", last.Name, applied.Reason, applied.Message)
	}
}

// waitUntil shows the progress of a workspace until it is done, and returns its
// last state. It fails if the workspace cannot start a run before a user changes something.
func (o *Options) waitUntil(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, done func(*infrav1.WorkspaceTemplateApply) bool) (*infrav1.WorkspaceTemplateApply, error) {
	p := o.progress()
	defer p.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	blocked := &blockedTimer{cancel: cancel}
	defer blocked.observe(nil, "")
	line := "Waiting until the manager starts the run; if it does not, " + o.hints("see captctl doctor")
	report := func(since time.Time, err error) {
		// What is known may not be true any more. The next observation starts the timer again.
		blocked.observe(nil, "")
		p.outage(since, err)
	}
	var last *infrav1.WorkspaceTemplateApply
	err := operate.Watch(ctx, c, &infrav1.WorkspaceTemplateApplyList{}, apply, report, func(a *infrav1.WorkspaceTemplateApply) (bool, error) {
		last = a
		if err := operate.CheckNotPaused(a); err != nil {
			return false, err
		}
		blocker := operate.Blocker(a)
		blocked.observe(blocker, a.Name)
		line = cmp.Or(waitLine(a, blocker), line)
		if done(a) {
			return true, nil
		}
		p.show(line)
		return false, nil
	})
	if reason, ok := errors.AsType[*blockedError](context.Cause(ctx)); ok && err != nil {
		err = reason
	}
	return last, err
}

// waitLine describes what a workspace does or waits for, or is empty if that is not known.
// The blocker is its operate.Blocker.
func waitLine(apply *infrav1.WorkspaceTemplateApply, blocker *metav1.Condition) string {
	if run := apply.Status.Run; run != nil {
		return describe.Line(describe.RunNode(run), time.Time{})
	}
	if blocker != nil {
		return blocker.Reason + ": " + message.OneLine(blocker.Message)
	}
	if shell := apply.Status.Shell; shell.Open() && apply.Annotations[infrav1.ShellAnnotation] != "" {
		return infrav1.ShellOpenReason + ": a run waits until shell " + shellOwner(shell) + " is closed"
	}
	if c := operate.Progress(apply); c != nil && c.Status != metav1.ConditionTrue {
		return progressLine(apply, c)
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

// progressLine describes what a workspace waits for.
func progressLine(apply *infrav1.WorkspaceTemplateApply, c *metav1.Condition) string {
	if c.Reason != infrav1.WaitingForApprovalReason {
		return c.Reason + ": " + message.OneLine(c.Message)
	}
	if plan := apply.Status.Plan; plan != nil && plan.ID == apply.Spec.ApprovedPlan {
		return "Waiting until plan " + plan.ID + " is applied"
	}
	// The message says how to approve the plan, although the request may replace it.
	return c.Reason
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
	case errors.Is(err, operate.ErrDeleted):
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
