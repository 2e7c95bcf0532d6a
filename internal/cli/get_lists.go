package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

// listedStatus is the status of a thing in the structured output of lists.
type listedStatus struct {
	State   describe.State `json:"state"`
	Reason  string         `json:"reason,omitempty"`
	Message string         `json:"message,omitempty"`
	Since   metav1.Time    `json:"since,omitzero"`
}

func statusOf(n *describe.Node, summary string) listedStatus {
	return listedStatus{State: n.State, Reason: n.Reason, Message: summary, Since: n.Since}
}

// listedCluster is the structured output of captctl get clusters.
type listedCluster struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Version    string `json:"version,omitempty"`
	ReadyNodes int32  `json:"readyNodes"`
	Nodes      int32  `json:"nodes"`
	// Attention are the workspaces that wait for a user.
	Attention []string `json:"attention,omitempty"`
	listedStatus
}

var clusterListing = listing{
	title: "clusters", noun: "clusters", resource: "cluster.cluster.x-k8s.io", aliases: []string{"cluster", "cl"},
	long: `List clusters, each with the worst status in its tree: the cause, rather than what
waits for it. Those that need your action come first.`,
	header: []string{"NAME", "VERSION", "NODES", "STATUS", "SINCE", "MESSAGE"},
	wide:   []string{"AGE"},
	empty:  "write one with captctl generate cluster",
	kinds:  describe.Kinds,
	read: func(ctx context.Context, c client.Reader, namespace string, now time.Time) ([]listed, error) {
		all, err := describe.ReadAll(ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		lines := make([]listed, len(all))
		for i, objects := range all {
			lines[i] = clusterLine(objects, now)
		}
		return attentionFirst(sortLines(lines)), nil
	},
}

func clusterLine(objects *describe.Objects, now time.Time) listed {
	cluster := objects.Cluster
	tree := describe.Build(objects, false)
	worst := describe.Worst(tree)
	line := listedCluster{Namespace: cluster.Namespace, Name: cluster.Name, Version: objects.Version(), listedStatus: statusOf(worst, worst.Summary())}
	if workers := cluster.Status.Workers; workers != nil {
		line.ReadyNodes, line.Nodes = ptr.Deref(workers.ReadyReplicas, 0), ptr.Deref(workers.DesiredReplicas, 0)
	}
	tree.Walk(func(_ string, n *describe.Node) {
		if n.Kind == "Workspace" && n.Attention() != "" {
			line.Attention = append(line.Attention, n.Name)
		}
	})
	return listed{
		namespace: cluster.Namespace, name: cluster.Name, state: line.State, value: line,
		cells: append(text.Cells(cluster.Name, line.Version, fmt.Sprintf("%d/%d", line.ReadyNodes, line.Nodes)), statusCells(worst, line.Message, now)...),
		wide:  text.Cells(text.Age(now, cluster.CreationTimestamp.Time)),
	}
}

// listedWorkspace is the structured output of captctl get workspaces.
type listedWorkspace struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
	Template  string `json:"template"`
	Resources int32  `json:"resources"`
	// Drift is the number of resources that were changed outside of Terraform.
	Drift int `json:"drift,omitempty"`
	listedStatus
}

var workspaceListing = listing{
	title: "workspaces", noun: "workspaces", resource: "workspacetemplateapply.infrastructure.cluster.x-k8s.io", aliases: []string{"workspace", "ws"},
	long:   "List workspaces. Those that need your action come first.",
	header: []string{"NAME", "CLUSTER", "RESOURCES", "STATUS", "SINCE", "MESSAGE"},
	wide:   []string{"TEMPLATE", "DRIFT", "AGE"},
	empty:  "create one with kubectl apply: see captctl validate --help",
	kinds:  workspaceKind,
	read: func(ctx context.Context, c client.Reader, namespace string, now time.Time) ([]listed, error) {
		var list infrav1.WorkspaceTemplateApplyList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing workspaces: %w", err)
		}
		lines := make([]listed, len(list.Items))
		for i := range list.Items {
			lines[i] = workspaceLine(&list.Items[i], now)
		}
		return attentionFirst(sortLines(lines)), nil
	},
}

func workspaceLine(apply *infrav1.WorkspaceTemplateApply, now time.Time) listed {
	worst := describe.Worst(describe.WorkspaceNode(apply, false))
	line := listedWorkspace{
		Namespace: apply.Namespace, Name: apply.Name, Template: apply.Spec.TemplateRef.Name,
		listedStatus: statusOf(worst, worst.ProgressText()),
	}
	if cluster, owned := describe.ClusterOf(apply); owned {
		line.Cluster = cluster.Name
	}
	if apply.Status.State != nil {
		line.Resources = apply.Status.State.Resources
	}
	if apply.Status.Drift != nil {
		line.Drift = len(apply.Status.Drift.Resources)
	}
	return listed{
		namespace: apply.Namespace, name: apply.Name, state: line.State, value: line,
		cells: append(text.Cells(apply.Name, line.Cluster, strconv.Itoa(int(line.Resources))), statusCells(worst, line.Message, now)...),
		wide:  text.Cells(line.Template, strconv.Itoa(line.Drift), text.Age(now, apply.CreationTimestamp.Time)),
	}
}

func workspaceKind() []client.Object { return []client.Object{&infrav1.WorkspaceTemplateApply{}} }

// attentionFirst moves what needs a user before all others.
func attentionFirst(lines []listed) []listed {
	slices.SortStableFunc(lines, func(a, b listed) int {
		return max(b.state.Severity(), describe.StateWaiting.Severity()) - max(a.state.Severity(), describe.StateWaiting.Severity())
	})
	return lines
}

var addonListing = listing{
	title: "add-ons", noun: "addons", resource: "captaddon.addons.cluster.x-k8s.io", aliases: []string{"addon"},
	long:   "List add-ons, with the number of clusters in which they are ready.",
	header: []string{"NAME", "VERSION", "READY", "STATUS", "MESSAGE"},
	wide:   []string{"SELECTOR", "DEPENDS ON"},
	empty:  "install one with captctl addon install",
	kinds:  func() []client.Object { return []client.Object{&addonsv1.CAPTAddon{}} },
	read: func(ctx context.Context, c client.Reader, namespace string, _ time.Time) ([]listed, error) {
		var list addonsv1.CAPTAddonList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing add-ons: %w", err)
		}
		lines := make([]listed, len(list.Items))
		for i := range list.Items {
			s := summaryOf(&list.Items[i])
			colour := text.Cyan
			if s.Ready >= s.Matched && s.Reason == "Ready" {
				colour = text.Green
			}
			lines[i] = listed{
				namespace: s.Namespace, name: s.Name, value: s,
				cells: []text.Cell{
					{Text: s.Name},
					{Text: s.Version},
					{Text: fmt.Sprintf("%d/%d", s.Ready, s.Matched)},
					{Text: cmp.Or(s.Reason, "NotReported"), Colour: colour},
					{Text: message.OneLine(s.Message)},
				},
				wide: text.Cells(s.Selector, strings.Join(s.DependsOn, ",")),
			}
		}
		return sortLines(lines), nil
	},
}

// listedPlan is the structured output of captctl get plans.
type listedPlan struct {
	Namespace string                `json:"namespace"`
	Workspace string                `json:"workspace"`
	Plan      string                `json:"plan"`
	Operation infrav1.PlanOperation `json:"operation,omitempty"`
	Waiting   bool                  `json:"waiting"`
	Add       int32                 `json:"add"`
	Change    int32                 `json:"change"`
	Destroy   int32                 `json:"destroy"`
	Reason    string                `json:"reason,omitempty"`
	CreatedAt metav1.Time           `json:"createdAt,omitzero"`
}

var planListing = listing{
	title: "plans", noun: "plans", resource: "workspacetemplateapply.infrastructure.cluster.x-k8s.io", aliases: []string{"plan"},
	long: `List the latest plan of each workspace. Plans that wait for a decision come first, the
oldest at the top. With -o name, the names are those of their workspaces.`,
	header: []string{"WORKSPACE", "PLAN", "ADD", "CHANGE", "DESTROY", "STATUS", "AGE"},
	wide:   []string{"OPERATION"},
	empty:  "a workspace has one after its first run",
	kinds:  workspaceKind,
	read: func(ctx context.Context, c client.Reader, namespace string, now time.Time) ([]listed, error) {
		var list infrav1.WorkspaceTemplateApplyList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing workspaces: %w", err)
		}
		var plans []listedPlan
		for i := range list.Items {
			if plan := list.Items[i].Status.Plan; plan != nil {
				plans = append(plans, planOf(&list.Items[i], plan))
			}
		}
		slices.SortFunc(plans, comparePlans)
		lines := make([]listed, len(plans))
		for i, p := range plans {
			lines[i] = planLine(p, now)
		}
		return lines, nil
	},
}

func planOf(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) listedPlan {
	p := listedPlan{
		Namespace: apply.Namespace, Workspace: apply.Name, Plan: plan.ID, Operation: plan.Operation, CreatedAt: plan.CreatedAt,
		Waiting: ptr.Deref(plan.Waiting, false), Add: plan.Add, Change: plan.Change, Destroy: plan.Destroy, Reason: "Applied",
	}
	if p.Waiting {
		node := describe.WorkspaceNode(apply, false)
		p.Reason = cmp.Or(node.Reason, infrav1.WaitingForApprovalReason)
	}
	return p
}

// comparePlans sorts waiting plans first, the oldest at the top, and the others by name.
func comparePlans(a, b listedPlan) int {
	switch {
	case a.Waiting && b.Waiting:
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.Workspace, b.Workspace))
	case a.Waiting:
		return -1
	case b.Waiting:
		return 1
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workspace, b.Workspace))
}

func planLine(p listedPlan, now time.Time) listed {
	colour := text.Green
	if p.Waiting {
		colour = text.Yellow
	}
	number := func(n int32) text.Cell { return text.Cell{Text: strconv.Itoa(int(n))} }
	return listed{
		namespace: p.Namespace, name: p.Workspace, value: p,
		cells: []text.Cell{
			{Text: p.Workspace},
			{Text: p.Plan},
			number(p.Add), number(p.Change), number(p.Destroy),
			{Text: p.Reason, Colour: colour},
			{Text: text.Age(now, p.CreatedAt.Time)},
		},
		wide: text.Cells(string(p.Operation)),
	}
}
