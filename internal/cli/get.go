package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
)

// The output formats of lists, beside JSON and YAML.
const (
	wideOutput text.Output = "wide"
	nameOutput text.Output = "name"
)

func newGetCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "get",
		Short: "List clusters, workspaces, add-ons and plans; print a kubeconfig",
	}, newListCommand(o, clusterListing), newListCommand(o, workspaceListing), newListCommand(o, addonListing), newListCommand(o, planListing), newGetKubeconfigCommand(o))
}

// listing is how a kind of thing is listed.
type listing struct {
	// title is the plural in sentences, noun that of the command, and resource the name before the slash with -o name.
	title, noun, resource string
	aliases               []string
	long                  string
	header                []string
	// wide are the columns of -o wide before the last one.
	wide []string
	// empty is the next step if there are none.
	empty string
	// kinds returns an object of each kind that read lists.
	kinds func() []client.Object
	read  func(ctx context.Context, c client.Reader, namespace string, now time.Time) ([]listed, error)
}

// listed is a line of a list.
type listed struct {
	namespace, name string
	state           describe.State
	cells, wide     []text.Cell
	value           any
}

// listCommand is one call of a list.
type listCommand struct {
	*Options
	listing
	namespace     string
	allNamespaces bool
	output        text.Output
}

func newListCommand(o *Options, kind listing) *cobra.Command {
	l := &listCommand{Options: o, listing: kind}
	var watch bool
	cmd := &cobra.Command{
		Use: kind.noun, Aliases: kind.aliases, Short: "List " + kind.title, Long: kind.long,
		Example: fmt.Sprintf("  captctl get %[1]s\n  captctl get %[1]s -A --watch\n  captctl get %[1]s -o wide", kind.noun),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, namespace, err := o.connect()
			if err != nil {
				return err
			}
			if l.namespace = namespace; l.allNamespaces {
				l.namespace = metav1.NamespaceAll
			}
			lines, err := l.read(cmd.Context(), c, l.namespace, time.Now())
			if err != nil {
				return err
			}
			if watch {
				return l.watch(cmd.Context())
			}
			return l.print(lines)
		},
	}
	cmd.Flags().BoolVarP(&l.allNamespaces, "all-namespaces", "A", false, "List those of all namespaces.")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Then print each one that changes, until Ctrl-C.")
	addFormat(cmd, &l.output, text.JSON, text.YAML, wideOutput, nameOutput)
	return cmd
}

func (l *listCommand) print(lines []listed) error {
	switch {
	case l.output.Structured():
		values := make([]any, len(lines))
		for i, line := range lines {
			values[i] = line.value
		}
		return l.output.Print(l.Out, values)
	case l.output == nameOutput:
		for _, line := range lines {
			fmt.Fprintf(l.Out, "%s/%s\n", l.resource, line.name)
		}
		return nil
	case len(lines) == 0:
		where := fmt.Sprintf("namespace %q", l.namespace)
		if l.allNamespaces {
			where = "any namespace"
		}
		fmt.Fprintf(l.Err, "No %s in %s: %s\n", l.title, where, l.hints(l.empty))
		return nil
	}
	table := text.NewTable(columnsOf(l, l.header, l.wide, "NAMESPACE")...)
	for _, line := range lines {
		table.Add(columnsOf(l, line.cells, line.wide, text.Cell{Text: line.namespace})...)
	}
	return table.Print(l.Out, l.style())
}

// columnsOf returns the columns of a line in the chosen format.
func columnsOf[T any](l *listCommand, columns, wide []T, namespace T) []T {
	columns = slices.Clone(columns)
	if l.output == wideOutput {
		columns = slices.Insert(columns, len(columns)-1, wide...)
	}
	if l.allNamespaces {
		columns = slices.Insert(columns, 0, namespace)
	}
	return columns
}

// watch prints the list, and then the lines that change.
func (l *listCommand) watch(ctx context.Context) error {
	config, err := l.Config()
	if err != nil {
		return err
	}
	shown := map[client.ObjectKey]any{}
	return describe.WatchAll(ctx, config, l.namespace, l.kinds(), func(c client.Reader) error {
		lines, err := l.read(ctx, c, l.namespace, time.Now())
		if err != nil {
			return err
		}
		first := len(shown) == 0
		var changed []listed
		for _, line := range lines {
			key := client.ObjectKey{Namespace: line.namespace, Name: line.name}
			// A new age alone is not a change, and is not part of the value.
			if !equality.Semantic.DeepEqual(shown[key], line.value) {
				changed = append(changed, line)
			}
			shown[key] = line.value
		}
		if len(changed) == 0 && !first {
			return nil
		}
		return l.print(changed)
	})
}

// statusCells returns the columns STATUS, SINCE and MESSAGE of a node.
func statusCells(n *describe.Node, summary string, now time.Time) []text.Cell {
	return []text.Cell{
		{Text: cmp.Or(n.Reason, string(n.State)), Colour: n.State.Colour()},
		{Text: text.Age(now, n.Since.Time)},
		{Text: summary},
	}
}

// sortLines sorts lines by namespace and name.
func sortLines(lines []listed) []listed {
	slices.SortFunc(lines, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return lines
}
