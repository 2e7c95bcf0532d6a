package describe

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func owned(controller types.UID, owners ...types.UID) metav1.ObjectMeta {
	var m metav1.ObjectMeta
	for _, owner := range owners {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{UID: owner, Controller: new(owner == controller)})
	}
	return m
}

func TestParentOf_isTheControllerOrTheNearestOwner(t *testing.T) {
	known := map[types.UID]client.Object{
		"cluster": &clusterv1.Cluster{}, "set": &infrav1.CAPTMachineSet{}, "machine": &infrav1.CAPTMachine{},
	}
	for name, tc := range map[string]struct {
		obj  client.Object
		want types.UID
	}{
		"controller":             {&infrav1.CAPTMachine{ObjectMeta: owned("cluster", "set", "cluster")}, "cluster"},
		"nearest owner":          {&infrav1.CAPTMachine{ObjectMeta: owned("", "cluster", "set")}, "set"},
		"nearest owner first":    {&infrav1.CAPTMachine{ObjectMeta: owned("", "set", "cluster")}, "set"},
		"controller is not read": {&infrav1.CAPTMachine{ObjectMeta: owned("deleted", "deleted", "cluster")}, "cluster"},
		"no owner is read":       {&infrav1.CAPTMachine{ObjectMeta: owned("", "deleted")}, ""},
		"no owner":               {&infrav1.CAPTMachine{}, ""},
		"binding":                {&clusteraddonsv1.ClusterResourceSetBinding{ObjectMeta: owned("", "cluster")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(parentOf(tc.obj, known)).To(Equal(tc.want))
		})
	}
}

func TestBelongs_byOwnerLabelOrReference(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTCluster", Name: "infra"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTControlPlane", Name: "cp"}
	labelled := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "infra", Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
	}
	set := func(name string) *infrav1.CAPTMachineSet {
		s := &infrav1.CAPTMachineSet{}
		s.Spec.ClusterName = name
		return s
	}
	deployment := func(name string) *infrav1.CAPTMachineDeployment {
		d := &infrav1.CAPTMachineDeployment{}
		d.Spec.ClusterName = name
		return d
	}
	binding := func(name string) *clusteraddonsv1.ClusterResourceSetBinding {
		b := &clusteraddonsv1.ClusterResourceSetBinding{}
		b.Spec.ClusterName = name
		return b
	}
	for name, tc := range map[string]struct {
		obj         client.Object
		want, other bool
	}{
		"owner":                    {obj: &infrav1.CAPTMachine{ObjectMeta: owned("", "uid")}, want: true},
		"other owner":              {obj: &infrav1.CAPTMachine{ObjectMeta: owned("", "other")}},
		"label":                    {obj: &infrav1.CAPTMachine{ObjectMeta: labelled("demo")}, want: true},
		"other label":              {obj: &infrav1.CAPTMachine{ObjectMeta: labelled("other")}, other: true},
		"label before reference":   {obj: &infrav1.CAPTCluster{ObjectMeta: labelled("other")}, other: true},
		"infrastructure":           {obj: &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Name: "infra"}}, want: true},
		"other infrastructure":     {obj: &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Name: "cp"}}},
		"control plane":            {obj: &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "cp"}}, want: true},
		"other control plane":      {obj: &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "infra"}}},
		"machine set":              {obj: set("demo"), want: true},
		"other machine set":        {obj: set("other")},
		"machine deployment":       {obj: deployment("demo"), want: true},
		"other machine deployment": {obj: deployment("other")},
		"binding":                  {obj: binding("demo"), want: true},
		"other binding":            {obj: binding("other"), other: true},
		"none of these":            {obj: &infrav1.CAPTMachine{}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(belongs(cluster, tc.obj)).To(Equal(tc.want))
			NewWithT(t).Expect(belongsToOther(cluster, tc.obj)).To(Equal(tc.other))
		})
	}
}

func TestBuild_survivesOwnersInACycle(t *testing.T) {
	g := NewWithT(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid"}}
	cluster.OwnerReferences = owned("", "machine").OwnerReferences
	machine := &infrav1.CAPTMachine{ObjectMeta: owned("", "uid")}
	machine.UID = "machine"
	tree := Build(&Objects{Cluster: cluster, Items: []client.Object{machine, cluster}}, true)
	g.Expect(tree.Children).To(HaveLen(2), "the machine and the workload cluster")
	g.Expect(tree.Children[0].Children).To(HaveLen(1), "the cycle")
	g.Expect(tree.Children[0].Children[0].Children).To(BeEmpty())
}

func TestCollapsed_keepsNodesThatAreNotReady(t *testing.T) {
	list := func(kind string, ready, waiting int) []*Node {
		var nodes []*Node
		for i := range ready {
			nodes = append(nodes, &Node{Kind: kind, Name: fmt.Sprint(i), State: StateReady})
		}
		for range waiting {
			nodes = append(nodes, &Node{Kind: kind, Name: "waiting", State: StateWaiting})
		}
		return nodes
	}
	parent := &Node{Kind: "B", Name: "parent", State: StateReady, Children: list("A", 0, 1)}
	for name, tc := range map[string]struct {
		nodes []*Node
		want  []string
	}{
		"none":                      {nil, nil},
		"few":                       {list("A", 2, 1), []string{"A/0", "A/1", "A/waiting"}},
		"limit":                     {list("A", 10, 0), []string{"A/0", "A/1", "A/2", "A/3", "A/4", "A/5", "A/6", "A/7", "A/8", "A/9"}},
		"many":                      {list("A", 11, 2), []string{"A/waiting", "A/waiting", "A 11 more"}},
		"many of two kinds":         {append(list("A", 11, 0), list("B", 12, 1)...), []string{"A 11 more", "B/waiting", "B 12 more"}},
		"a child that is not ready": {append(list("B", 11, 0), parent), []string{"B/parent", "B 11 more"}},
		"few of one, many of other": {append(list("A", 1, 0), list("B", 11, 0)...), []string{"A/0", "B 11 more"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range collapsed(tc.nodes) {
				title := n.title()
				if n.Message != "" {
					title += " " + n.Message
				}
				got = append(got, title)
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestShortenMessage_leavesTheDetailsToTheWorkspace(t *testing.T) {
	for name, tc := range map[string]struct {
		child *Node
		want  string
	}{
		"workspace in progress": {&Node{Kind: workspaceKind, Name: "demo", State: StateWaiting}, "WorkspaceReady: WorkspaceTemplateApply demo"},
		"other name":            {&Node{Kind: workspaceKind, Name: "dem", State: StateWaiting}, "WorkspaceReady: WorkspaceTemplateApply demo: Run is applying"},
		"ready workspace":       {&Node{Kind: workspaceKind, Name: "demo", State: StateReady}, "WorkspaceReady: WorkspaceTemplateApply demo: Run is applying"},
		"other kind":            {&Node{Kind: "Machine", Name: "demo", State: StateWaiting}, "WorkspaceReady: WorkspaceTemplateApply demo: Run is applying"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Message: "WorkspaceReady: WorkspaceTemplateApply demo: Run is applying", Children: []*Node{tc.child}}
			n.shortenMessage()
			NewWithT(t).Expect(n.Message).To(Equal(tc.want))
		})
	}
}

func TestSetPoolStatus_needsPhaseAndReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		phase          clusterv1.MachinePoolPhase
		ready, desired *int32
		want           State
	}{
		"running":             {clusterv1.MachinePoolPhaseRunning, new(int32(2)), new(int32(2)), StateReady},
		"more than desired":   {clusterv1.MachinePoolPhaseRunning, new(int32(3)), new(int32(2)), StateReady},
		"too few":             {clusterv1.MachinePoolPhaseRunning, new(int32(1)), new(int32(2)), StateWaiting},
		"nothing reported":    {clusterv1.MachinePoolPhaseRunning, nil, new(int32(2)), StateWaiting},
		"scaling":             {clusterv1.MachinePoolPhaseScaling, new(int32(2)), new(int32(2)), StateWaiting},
		"no replicas desired": {clusterv1.MachinePoolPhaseRunning, nil, nil, StateReady},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &clusterv1.MachinePool{}
			pool.Spec.Replicas, pool.Status.ReadyReplicas, pool.Status.Phase = tc.desired, tc.ready, string(tc.phase)
			var n Node
			n.setPoolStatus(pool)
			NewWithT(t).Expect(n).To(Equal(Node{State: tc.want, Reason: string(tc.phase)}))
		})
	}
}

func TestRecordNode_outcome(t *testing.T) {
	for outcome, want := range map[infrav1.RunOutcome]State{
		"Succeeded": StateReady, "NoChanges": StateReady, "Failed": StateFailed, "TimedOut": StateFailed, "Lost": StateFailed,
		"Planned": StateAttention, "Blocked": StateAttention, "Canceled": StateAttention, "Interrupted": StateWaiting,
	} {
		n := recordNode(infrav1.RunRecord{ID: "r1", Outcome: outcome})
		NewWithT(t).Expect(n.State).To(Equal(want), string(outcome))
	}
}

func TestDependencyOrder(t *testing.T) {
	addon := func(name string, dependencies ...string) addonsv1.CAPTAddon {
		a := addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, d := range dependencies {
			a.Spec.DependsOn = append(a.Spec.DependsOn, infrav1.LocalReference{Name: d})
		}
		return a
	}
	for name, tc := range map[string]struct {
		addons []addonsv1.CAPTAddon
		want   []string
	}{
		"by name":                   {[]addonsv1.CAPTAddon{addon("b"), addon("a")}, []string{"a", "b"}},
		"dependency first":          {[]addonsv1.CAPTAddon{addon("a", "c"), addon("b"), addon("c")}, []string{"c", "a", "b"}},
		"chain":                     {[]addonsv1.CAPTAddon{addon("a", "b"), addon("b", "c"), addon("c")}, []string{"c", "b", "a"}},
		"dependency does not exist": {[]addonsv1.CAPTAddon{addon("a", "none")}, []string{"a"}},
		"cycle":                     {[]addonsv1.CAPTAddon{addon("a", "b"), addon("b", "a")}, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, a := range dependencyOrder(tc.addons) {
				names = append(names, a.Name)
			}
			NewWithT(t).Expect(names).To(Equal(tc.want))
		})
	}
}

func TestDetails_progressAndMessage(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	since := metav1.NewTime(now.Add(-time.Minute))
	for name, tc := range map[string]struct {
		node Node
		now  time.Time
		want string
	}{
		"message":           {Node{Message: "* a:\n  * b\n"}, now, "* a: * b"},
		"nothing":           {Node{Progress: &Progress{}}, now, ""},
		"reading":           {Node{Progress: &Progress{Done: 3}}, now, "3 resources read"},
		"reading one":       {Node{Progress: &Progress{Done: 1}}, now, "1 resource read"},
		"start":             {Node{Progress: &Progress{Total: 4}}, now, "░░░░░░░░░░ 0/4"},
		"half":              {Node{Progress: &Progress{Done: 2, Total: 4}}, now, "█████░░░░░ 2/4"},
		"more than all":     {Node{Progress: &Progress{Done: 5, Total: 4}}, now, "██████████ 5/4"},
		"current":           {Node{Progress: &Progress{Done: 4, Total: 4, Action: "create", Current: "a.b", CurrentSince: since}}, now, "██████████ 4/4, create a.b (60s)"},
		"without ages":      {Node{Progress: &Progress{Total: 4, Action: "create", Current: "a.b", CurrentSince: since}}, time.Time{}, "░░░░░░░░░░ 0/4, create a.b"},
		"without an action": {Node{Progress: &Progress{Current: "a.b"}}, now, "a.b"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(details(&tc.node, tc.now)).To(Equal(tc.want))
		})
	}
}

func TestLine_leavesOutEmptyParts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Line(&Node{Kind: "Addons"}, time.Time{})).To(Equal("Addons"))
	g.Expect(Line(&Node{Kind: "Run", Name: "r1", State: StateFailed, Reason: "Failed", Message: "no capacity"}, time.Time{})).To(Equal("Run/r1  ✗ Failed  no capacity"))
}

func TestNodeNode_status(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []corev1.NodeCondition
		want       Node
	}{
		"ready":     {[]corev1.NodeCondition{{Type: "Other"}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "posting"}}, Node{State: StateReady, Reason: "Ready", Message: "m5.large v1.33.4 (Karpenter, default)"}},
		"not ready": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "no CNI"}}, Node{State: StateFailed, Reason: "KubeletNotReady", Message: "no CNI"}},
		"lost":      {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}, Node{State: StateUnknown, Reason: "NodeStatusUnknown"}},
		"new":       {nil, Node{State: StateUnknown, Reason: notReported}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large", "karpenter.sh/nodepool": "default"}}}
			node.Status.NodeInfo.KubeletVersion, node.Status.Conditions = "v1.33.4", tc.conditions
			tc.want.Kind, tc.want.Name = "Node", "n"
			NewWithT(t).Expect(*nodeNode(node)).To(Equal(tc.want))
		})
	}
}

func TestWorkload_failsOnlyIfTheNodesAreUnreachableToo(t *testing.T) {
	probe := metav1.Condition{Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionFalse, Reason: "ProbeFailed"}
	for name, tc := range map[string]struct {
		initialized bool
		probe       *metav1.Condition
		nodes       *Nodes
		state       State
		reason      string
	}{
		"no control plane":                 {state: StateWaiting, reason: "WaitingForControlPlane"},
		"no probe":                         {initialized: true, state: StateUnknown, reason: notReported},
		"probe failed before it was ready": {probe: &probe, state: StateWaiting, reason: "ProbeFailed"},
		"probe failed, nodes not read":     {initialized: true, probe: &probe, state: StateWaiting, reason: "ProbeFailed"},
		"probe failed, nodes listed":       {initialized: true, probe: &probe, nodes: &Nodes{}, state: StateWaiting, reason: "ProbeFailed"},
		"probe failed, nodes unreachable":  {initialized: true, probe: &probe, nodes: &Nodes{Err: fmt.Errorf("refused")}, state: StateFailed, reason: "ProbeFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Status.Initialization.ControlPlaneInitialized = new(tc.initialized)
			if tc.probe != nil {
				cluster.Status.Conditions = []metav1.Condition{*tc.probe}
			}
			n := (&builder{objects: &Objects{Cluster: cluster, Nodes: tc.nodes}}).workload()
			NewWithT(t).Expect(n.State).To(Equal(tc.state))
			NewWithT(t).Expect(n.Reason).To(Equal(tc.reason))
		})
	}
}
