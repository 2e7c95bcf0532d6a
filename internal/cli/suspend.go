package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newSuspendCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "suspend",
		Short: "Pause a cluster or a workspace",
		Long: `Pause a cluster or a workspace: its controllers change nothing until captctl resume.
A run that is in progress continues.`,
	}, newPauseClusterCommand(o, "suspend", true), newPauseWorkspaceCommand(o, "suspend", true))
}

func newResumeCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "resume",
		Short: "Continue with a cluster or a workspace that is paused",
	}, newPauseClusterCommand(o, "resume", false), newPauseWorkspaceCommand(o, "resume", false))
}

func newPauseClusterCommand(o *Options, verb string, paused bool) *cobra.Command {
	return o.clusterCommand(&cobra.Command{
		Use: "cluster NAME", Short: pauseTitle(paused) + " a cluster, with all that belongs to it",
		Long:    pauseTitle(paused) + " a cluster, with all that belongs to it: set spec.paused of the Cluster.",
		Example: fmt.Sprintf("  captctl %s cluster demo", verb),
	}, func(ctx context.Context, c client.WithWatch, cluster *clusterv1.Cluster) error {
		before := cluster.DeepCopy()
		if cluster.Spec.Paused = nil; paused {
			cluster.Spec.Paused = new(true)
		}
		return o.pause(ctx, c, cluster, before, "Cluster "+cluster.Name, paused)
	})
}

func newPauseWorkspaceCommand(o *Options, verb string, paused bool) *cobra.Command {
	return o.workspaceCommand(&cobra.Command{
		Use: "workspace NAME", Short: pauseTitle(paused) + " one workspace",
		Long:    pauseTitle(paused) + " one workspace: set or remove its annotation " + clusterv1.PausedAnnotation + ".",
		Example: fmt.Sprintf("  captctl %[1]s workspace network-a\n  captctl %[1]s workspace cluster/demo/vpc", verb),
	}, func(ctx context.Context, w *workspaceCall) error {
		before := w.apply.DeepCopy()
		if delete(w.apply.Annotations, clusterv1.PausedAnnotation); paused {
			if w.apply.Annotations == nil {
				w.apply.Annotations = map[string]string{}
			}
			w.apply.Annotations[clusterv1.PausedAnnotation] = ""
		}
		return w.pause(ctx, w.client, w.apply, before, "Workspace "+w.apply.Name, paused)
	})
}

// pause writes what changed in an object, and prints the result.
func (o *Options) pause(ctx context.Context, c client.Client, obj, before client.Object, name string, paused bool) error {
	if err := c.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing %s: %w", name, err)
	}
	if paused {
		fmt.Fprintf(o.Out, "%s is paused\n", name)
	} else {
		fmt.Fprintf(o.Out, "%s is not paused\n", name)
	}
	return nil
}

func pauseTitle(paused bool) string {
	if paused {
		return "Pause"
	}
	return "Resume"
}
