package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

// nameHelp describes the argument of the commands for workspaces.
const nameHelp = `NAME is the name of a WorkspaceTemplateApply. Use cluster/NAME for the workspace
of a cluster's control plane, and cluster/NAME/vpc for the workspace of its VPC.`

// workspaceCall is a call of a command for one workspace.
type workspaceCall struct {
	*Options
	client client.WithWatch
	apply  *infrav1.WorkspaceTemplateApply
	// args are the arguments. The first one names the workspace.
	args []string
}

// workspaceCommand adds the help, the arguments and the completion that commands
// for one workspace share. Run is called with the workspace, unless the command has RunE.
func (o *Options) workspaceCommand(cmd *cobra.Command, run func(context.Context, *workspaceCall) error) *cobra.Command {
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			w, err := o.workspace(cmd.Context(), args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), w)
		}
	}
	cmd.Long = strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + nameHelp)
	if cmd.Args == nil {
		cmd.Args = oneName("workspace")
	}
	cmd.ValidArgsFunction = o.complete(workspaceNames, false)
	return cmd
}

// namedCommand adds the argument and the completion to a command for one object, which is read into
// obj before run is called. The list is an empty one of its kind.
func namedCommand(o *Options, cmd *cobra.Command, kind string, obj client.Object, list client.ObjectList, run func(context.Context, client.WithWatch) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = oneName(kind), o.complete(operate.Names(list), false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, namespace, err := o.connect()
		if err != nil {
			return err
		}
		if err := operate.Get(cmd.Context(), c, kind, client.ObjectKey{Namespace: namespace, Name: args[0]}, obj, list); err != nil {
			return err
		}
		return run(cmd.Context(), c)
	}
	return cmd
}

// clusterCommand is namedCommand for a Cluster.
func (o *Options) clusterCommand(cmd *cobra.Command, run func(context.Context, client.WithWatch, *clusterv1.Cluster) error) *cobra.Command {
	cluster := &clusterv1.Cluster{}
	return namedCommand(o, cmd, "cluster", cluster, &clusterv1.ClusterList{}, func(ctx context.Context, c client.WithWatch) error { return run(ctx, c, cluster) })
}

// workspace finds the workspace that the first argument names.
func (o *Options) workspace(ctx context.Context, args []string) (*workspaceCall, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, err
	}
	apply, err := operate.Find(ctx, c, namespace, args[0])
	return &workspaceCall{Options: o, client: c, apply: apply, args: args}, err
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
