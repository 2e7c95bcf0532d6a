package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
)

// completionPatience is how long a shell waits for names.
const completionPatience = 3 * time.Second

// namesOf lists the names of some kind of object.
type namesOf func(ctx context.Context, c client.Reader, namespace string) ([]string, error)

// complete completes arguments with names: the first of a command, or all of
// them when there may be several.
func (o *Options) complete(names namesOf, several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		c, namespace, err := o.reach()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(ctx, c, namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, typed) || slices.Contains(args, name) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// workspaceNames are all names by which workspaces are found.
func workspaceNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	names, err := operate.WorkspaceNames(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	// Without Cluster API there are workspaces all the same.
	clusters, _ := operate.ClusterNames(ctx, c, namespace)
	for _, cluster := range clusters {
		names = append(names, "cluster/"+cluster, "cluster/"+cluster+"/vpc")
	}
	return names, nil
}

func addonNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	var list addonsv1.CAPTAddonList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

func namespaceNames(ctx context.Context, c client.Reader, _ string) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

// completeFlags completes the flags that lead to a cluster.
func (o *Options) completeFlags(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", o.completeFlag(namespaceNames))
	fromKubeconfig := func(pick func() []string) cobra.CompletionFunc {
		return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return slices.DeleteFunc(pick(), func(name string) bool { return !strings.HasPrefix(name, typed) }), cobra.ShellCompDirectiveNoFileComp
		}
	}
	_ = root.RegisterFlagCompletionFunc("context", fromKubeconfig(func() []string {
		config, err := o.Kube.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil
		}
		var names []string
		for name := range config.Contexts {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}))
}

// completeFlag completes the value of a flag with names.
func (o *Options) completeFlag(names namesOf) cobra.CompletionFunc {
	complete := o.complete(names, true)
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, typed)
	}
}

// completeEnvironments completes the commands that work on an embedded
// environment: each is a directory.
func completeEnvironments(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if dir := cmd.Flag("dir"); dir == nil || cmd.ValidArgsFunction != nil {
			continue
		}
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := EnvironmentNames(cmd.Flag("dir").Value.String())
			return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, typed) }), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// EnvironmentNames are the embedded environments in a directory; in that of the
// user when none is given.
func EnvironmentNames(dir string) []string {
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if home, err := os.UserHomeDir(); state == "" && err == nil {
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "capt")
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
