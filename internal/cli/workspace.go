package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

// nameHelp describes the argument of the commands for workspaces.
const nameHelp = `NAME is the name of a WorkspaceTemplateApply. Use cluster/NAME for the workspace
of a cluster's control plane, and cluster/NAME/vpc for the workspace of its VPC.`

// workspaceCommand adds the help, the arguments and the completion that commands
// for one workspace share. Run is called with the workspace, unless the command has RunE.
func (o *Options) workspaceCommand(cmd *cobra.Command, run func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error) *cobra.Command {
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, apply, args)
		}
	}
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
	addTimeout(cmd, wait)
}

// defaultTimeout is the time that commands wait for a result: longer than an upgrade of EKS takes.
const defaultTimeout = 2 * time.Hour

// addTimeout adds the --timeout flag to a command that waits if wait is set.
func addTimeout(cmd *cobra.Command, wait *bool) {
	var timeout time.Duration
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "Time to wait. What was requested continues after it.")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*wait {
			return run(cmd, args)
		}
		defer setTimeout(cmd, timeout)()
		err := run(cmd, args)
		if !errors.Is(cmd.Context().Err(), context.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		cause := context.Cause(cmd.Context())
		if requested, ok := errors.AsType[*requestedError](err); ok {
			return &requestedError{cause, requested.request}
		}
		return cause
	}
}
