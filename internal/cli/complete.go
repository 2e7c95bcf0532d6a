package cli

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/local/environment"
)

// completionTimeout is the time to list names for a shell completion.
const completionTimeout = 3 * time.Second

// namesOf lists the names of objects of a kind.
type namesOf func(ctx context.Context, c client.Reader, namespace string) ([]string, error)

// complete returns a function that completes arguments with names: only the first
// argument, or each one if the command accepts several.
func (o *Options) complete(names namesOf, several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, namespace, err := o.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(ctx, c, namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// workspaceNames returns all names that operate.Find accepts.
func workspaceNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	names, err := operate.Names(&infrav1.WorkspaceTemplateApplyList{})(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	// Workspaces may exist without Cluster API.
	clusters, _ := operate.Names(&clusterv1.ClusterList{})(ctx, c, namespace)
	for _, cluster := range clusters {
		names = append(names, "cluster/"+cluster, "cluster/"+cluster+"/vpc")
	}
	return names, nil
}

// completeFlags adds completions for --namespace and --context.
func (o *Options) completeFlags(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", o.completeFlag(func(ctx context.Context, c client.Reader, _ string) ([]string, error) {
		return operate.Names(&corev1.NamespaceList{})(ctx, c, "")
	}))
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := o.Kube.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeWords completes a flag with fixed words.
func completeWords(c *cobra.Command, flag string, words []string) {
	// The only error is a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeFlag returns a function that completes the value of a flag with names.
func (o *Options) completeFlag(names namesOf) cobra.CompletionFunc {
	complete := o.complete(names, true)
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, typed)
	}
}

// completeName completes the name of a local environment.
func (f *localCall) completeName(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return environmentNames(f.dir), cobra.ShellCompDirectiveNoFileComp
}

// environmentNames returns the names of the local environments in a directory, or
// in the default directory if dir is empty.
func environmentNames(dir string) []string {
	if dir == "" {
		base, err := environment.BaseDir()
		if err != nil {
			return nil
		}
		dir = base
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}
