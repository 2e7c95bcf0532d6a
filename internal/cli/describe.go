package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/cluster/workload"
)

func newDescribeCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "describe",
		Short: "Show the status of a cluster",
	}, newDescribeClusterCommand(o))
}

type describeOptions struct {
	*Options
	output     text.Output
	watch, all bool
}

func newDescribeClusterCommand(o *Options) *cobra.Command {
	d := &describeOptions{Options: o}
	cmd := o.clusterCommand(&cobra.Command{
		Use:   "cluster NAME",
		Short: "Show a cluster as a tree",
		Long: `Show a cluster as a tree: the objects of Cluster API and CAPT, Terraform runs with
their progress, add-ons, and the nodes of the workload cluster.

  ✓ ready   … in progress or waiting   ! needs your action   ✗ failed   ? unknown`,
		Example: `  captctl describe cluster demo
  captctl describe cluster demo --watch
  captctl describe cluster demo -o json | jq .state`,
	}, d.run)
	cmd.Flags().BoolVarP(&d.watch, "watch", "w", false, "Show each change until Ctrl-C.")
	cmd.Flags().BoolVar(&d.all, "show-all", false, "Include conditions, finished runs, ClusterResourceSets and bootstrap configurations.")
	addOutput(cmd, &d.output)
	return cmd
}

func (d *describeOptions) run(ctx context.Context, c client.WithWatch, cluster *clusterv1.Cluster) error {
	key := client.ObjectKeyFromObject(cluster)
	if d.watch {
		return d.watchCluster(ctx, c, key)
	}
	objects, err := describe.Read(ctx, c, key, d.all)
	if err != nil {
		return err
	}
	if objects.ControlPlaneInitialized() {
		objects.Nodes = describe.ReadNodes(ctx, c, workload.Connector{}, key)
	}
	return d.print(d.Out, d.tree(objects))
}

// tree returns the tree of a cluster. The commands in its messages have the flags of the user.
func (d *describeOptions) tree(objects *describe.Objects) *describe.Node {
	tree := describe.Build(objects, d.all)
	tree.Walk(func(_ string, n *describe.Node) { n.Message = d.hints(n.Message) })
	return tree
}

func (d *describeOptions) print(w io.Writer, tree *describe.Node) error {
	if d.output.Structured() {
		return d.output.Print(w, tree)
	}
	return describe.Render(w, tree, d.style(), time.Now())
}

// watchCluster shows the cluster after each change: in place on a terminal, else
// only the lines that changed.
func (d *describeOptions) watchCluster(ctx context.Context, c client.Client, key client.ObjectKey) error {
	config, err := d.Config()
	if err != nil {
		return err
	}
	watcher := &describe.Watcher{Config: config, Reader: c, Key: key, All: d.all}
	var show func(*describe.Node) error
	switch {
	case d.output.Structured():
		show = func(tree *describe.Node) error { return d.print(d.Out, tree) }
	case text.IsTerminal(d.Out):
		fmt.Fprint(d.Out, text.Escape+"[2J")
		watcher.Refresh, show = time.Second, d.draw // The ages change.
	default:
		log := &changeLog{d: d, lines: map[string]string{}}
		show = log.show
	}
	if err := watcher.Watch(ctx, func(objects *describe.Objects) error { return show(d.tree(objects)) }); err != nil {
		return err
	}
	if ctx.Err() == nil {
		fmt.Fprintf(d.Err, "Cluster %s was deleted\n", key.Name)
	}
	return nil
}

// changeLog prints a tree once, and then each line that changes.
type changeLog struct {
	d *describeOptions
	// lines are the last lines, by the path of their node.
	lines map[string]string
}

func (l *changeLog) show(tree *describe.Node) error {
	first := len(l.lines) == 0
	if first {
		if err := l.d.print(l.d.Out, tree); err != nil {
			return err
		}
	}
	// A new age alone is not a change.
	withoutAges := time.Time{}
	var path []string
	tree.Walk(func(branches string, n *describe.Node) {
		depth := len([]rune(branches)) / 2
		path = append(path[:depth], n.Kind+"/"+n.Name)
		key, line := strings.Join(path, " "), describe.Line(n, withoutAges)
		if previous, known := l.lines[key]; !first && (!known || previous != line) {
			fmt.Fprintf(l.d.Out, "%s  %s\n", time.Now().UTC().Format(time.RFC3339), line)
		}
		l.lines[key] = line
	})
	return nil
}

// draw draws a tree in place on a terminal.
func (d *describeOptions) draw(tree *describe.Node) error {
	var out bytes.Buffer
	if err := d.print(&out, tree); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	height := 0
	if file, ok := text.Raw(d.Out).(*os.File); ok {
		_, height, _ = term.GetSize(int(file.Fd()))
	}
	if height > 1 && len(lines) >= height {
		more := len(lines) - height + 2
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines: enlarge the window", more))
	}
	// Overwrite each line, then clear the rest: clearing first would flicker.
	fmt.Fprint(d.Out, text.Escape+"[H"+strings.Join(lines, text.Escape+"[K\n")+text.Escape+"[K\n"+text.Escape+"[J")
	return nil
}
