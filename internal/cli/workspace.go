package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/describe"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/message"
)

// nameHelp describes the argument of the commands for workspaces.
const nameHelp = `NAME is the name of a WorkspaceTemplateApply. Use cluster/NAME for the workspace
of a cluster's control plane, and cluster/NAME/vpc for the workspace of its VPC.`

// workspaceCommand adds the help, the arguments and the completion that commands
// for one workspace share.
func (o *Options) workspaceCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Long = strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + nameHelp)
	if cmd.Args == nil {
		cmd.Args = oneName("workspace")
	}
	cmd.ValidArgsFunction = o.complete(workspaceNames, false)
	return cmd
}

// workspace returns the workspace that an argument names.
func (o *Options) workspace(cmd *cobra.Command, name string) (client.WithWatch, *infrav1.WorkspaceTemplateApply, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	apply, err := operate.Find(cmd.Context(), c, namespace, name)
	return c, apply, err
}

// addWait adds the --wait flag to a command.
func addWait(cmd *cobra.Command, wait *bool) {
	cmd.Flags().BoolVar(wait, "wait", false, "Show the progress and wait for the result. The exit code is 1 if the run fails.")
}

// waitForResult waits until a workspace is done and prints the result. It returns
// an error if the workspace is then neither applied nor waiting for approval.
func (o *Options) waitForResult(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, done func(*infrav1.WorkspaceTemplateApply) bool) error {
	last, err := o.waitUntil(ctx, c, apply, done)
	if errors.Is(err, operate.ErrDeleted) && last != nil && !last.DeletionTimestamp.IsZero() {
		fmt.Fprintf(o.Out, "%s is deleted\n", last.Name)
		return nil
	}
	if err != nil {
		return err
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

// blockedFor is how long a wait continues for a workspace that cannot start a run before a
// user changes something. The user may have changed it just before the command, and the
// manager then needs a moment to notice.
const blockedFor = 10 * time.Second

// waitUntil shows the progress of a workspace until it is done, and returns its
// last state. It fails if the workspace cannot start a run before a user changes something.
func (o *Options) waitUntil(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, done func(*infrav1.WorkspaceTemplateApply) bool) (*infrav1.WorkspaceTemplateApply, error) {
	p := o.progress()
	defer p.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	blocked := &blockedTimer{cancel: cancel}
	defer blocked.observe(nil, "")
	var last *infrav1.WorkspaceTemplateApply
	err := operate.Watch(ctx, c, &infrav1.WorkspaceTemplateApplyList{}, client.ObjectKeyFromObject(apply), func(a *infrav1.WorkspaceTemplateApply) (bool, error) {
		last = a
		if err := operate.CheckNotPaused(a); err != nil {
			return false, err
		}
		blocker := operate.Blocker(a)
		blocked.observe(blocker, a.Name)
		if run := a.Status.Run; run != nil {
			p.show(describe.Line(describe.RunNode(run), time.Time{}))
		} else if blocker != nil {
			p.show(blocker.Reason + ": " + message.OneLine(blocker.Message))
		} else if c := operate.Progress(a); c != nil && c.Status != metav1.ConditionTrue {
			p.show(progressLine(a, c))
		}
		return done(a), nil
	})
	if reason, ok := errors.AsType[*blockedError](context.Cause(ctx)); ok && err != nil {
		err = reason
	}
	return last, err
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

// stillRequested adds to the error of a wait that the request stays. An interrupt has no
// other text.
func (o *Options) stillRequested(err error, what string) error {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(o.Err, "Interrupted: the %s was requested and may still be executed\n", what)
		return err
	}
	return fmt.Errorf("%w; the %s was requested and may still be executed", err, what)
}
