package describe_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
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
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
)

var now = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// named returns the metadata of an object whose UID is KIND/NAME.
func named(uid string, owners ...string) metav1.ObjectMeta {
	_, name, _ := strings.Cut(uid, "/")
	m := metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}, CreationTimestamp: ago(time.Hour)}
	for i, owner := range owners {
		kind, name, _ := strings.Cut(owner, "/")
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{Kind: kind, Name: name, UID: types.UID(owner), Controller: new(i == 0)})
	}
	return m
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, since time.Duration) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since)}}
}

func ready(since time.Duration) []metav1.Condition {
	return condition("Ready", metav1.ConditionTrue, "Ready", "", since)
}

func demo() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: named("Cluster/demo")}
	c.Labels = map[string]string{"karpenter.sh/enabled": "true"}
	c.Status.Conditions = append(condition("Available", metav1.ConditionFalse, "NotAvailable", "* ControlPlaneAvailable:\n  * Run is applying", 10*time.Minute),
		condition("RemoteConnectionProbe", metav1.ConditionFalse, "ProbeFailed", "Remote connection not established yet", 10*time.Minute)...)
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTCluster", Name: "demo"}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTControlPlane", Name: "demo"}
	return c
}

// provisioning returns a Cluster whose VPC is ready and whose control plane is
// being created.
func provisioning() *describe.Objects {
	o := &describe.Objects{Cluster: demo()}
	infra := &infrav1.CAPTCluster{ObjectMeta: named("CAPTCluster/demo", "Cluster/demo")}
	infra.Status.Conditions = ready(8 * time.Minute)
	vpc := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("WorkspaceTemplateApply/demo-vpc", "CAPTCluster/demo")}
	vpc.Status.Conditions, vpc.Status.State = ready(8*time.Minute), &infrav1.StateStatus{Resources: 23}
	cp := &controlplanev1.CAPTControlPlane{ObjectMeta: named("CAPTControlPlane/demo", "Cluster/demo")}
	cp.Status.Conditions = condition("Ready", metav1.ConditionFalse, "WaitingForWorkspace", "WorkspaceReady: WorkspaceTemplateApply demo: Applied: Run demo-r1 is applying", 7*time.Minute)
	eks := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("WorkspaceTemplateApply/demo", "CAPTControlPlane/demo")}
	eks.Status.Conditions = condition("Ready", metav1.ConditionFalse, "RunInProgress", "Applied: Run demo-r1 is applying", 7*time.Minute)
	eks.Status.Run = &infrav1.RunStatus{ID: "demo-r1", Operation: "PlanAndApply", StartedAt: ago(7 * time.Minute), Progress: &infrav1.RunProgress{
		Phase: "Applying", Done: 6, Total: 12, Current: []infrav1.CurrentResource{{Address: "aws_eks_cluster.this", Action: "create", Since: ago(6 * time.Minute)}},
	}}
	other := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("WorkspaceTemplateApply/other", "CAPTControlPlane/other")}
	other.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
	o.Items = []client.Object{eks, vpc, cp, infra, other}
	return o
}

func render(t *testing.T, n *describe.Node, style text.Style) string {
	t.Helper()
	var out bytes.Buffer
	NewWithT(t).Expect(describe.Render(text.NewPrintable(&out), n, style, now)).To(Succeed())
	return "\n" + out.String()
}

func TestTree_showsReasonAndAge(t *testing.T) {
	o := provisioning()
	o.Addons = []addonsv1.CAPTAddon{addon("karpenter", "flux"), addon("flux"), addon("unrelated")}
	o.Addons[0].Status.Clusters = []addonsv1.ClusterAddonStatus{{Name: "demo", Reason: "WaitingForDependency", Message: "flux is not ready", Since: ago(9 * time.Minute)}}
	o.Addons[2].Spec.ClusterSelector.MatchLabels = map[string]string{"other": "label"}

	NewWithT(t).Expect(render(t, describe.Build(o, false), text.Style{})).To(Equal(`
NAME                     STATUS                  SINCE  MESSAGE
Cluster/demo             … NotAvailable          10m    * ControlPlaneAvailable: * Run is applying
├─CAPTCluster/demo       ✓ Ready                 8m
│ └─Workspace/demo-vpc   ✓ Ready                 8m     23 resources
├─CAPTControlPlane/demo  … WaitingForWorkspace   7m     WorkspaceReady: WorkspaceTemplateApply demo
│ └─Workspace/demo       … RunInProgress         7m
│   └─Run/demo-r1        … Applying              7m     █████░░░░░ 6/12, create aws_eks_cluster.this (6m)
├─Addons
│ ├─CAPTAddon/flux       ? NotReported           60m
│ └─CAPTAddon/karpenter  … WaitingForDependency  9m     flux is not ready
└─Workload/API server    … ProbeFailed           10m    Remote connection not established yet
`))
}

func TestTree_fitsTheTerminalAndHasColours(t *testing.T) {
	o := provisioning()
	o.Items = o.Items[:0]
	o.Cluster.Spec = clusterv1.ClusterSpec{}
	NewWithT(t).Expect(render(t, describe.Build(o, false), text.Style{Colour: true, Width: 66})).To(Equal(`
` + dim("NAME") + `                   ` + dim("STATUS") + `          ` + dim("SINCE") + `  ` + dim("MESSAGE") + `
Cluster/demo           ` + "\x1b[36m… NotAvailable\x1b[0m" + `  ` + dim("10m") + `    * ControlPlaneAvail…
└─Workload/API server  ` + "\x1b[36m… ProbeFailed\x1b[0m" + `   ` + dim("10m") + `    Remote connection n…
`))
}

func dim(text string) string { return "\x1b[2m" + text + "\x1b[0m" }

func addon(name string, dependencies ...string) addonsv1.CAPTAddon {
	a := addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("CAPTAddon/" + name), CreationTimestamp: ago(time.Hour)}}
	a.Spec.ClusterSelector.MatchLabels = map[string]string{"karpenter.sh/enabled": "true"}
	for _, d := range dependencies {
		a.Spec.DependsOn = append(a.Spec.DependsOn, infrav1.LocalReference{Name: d})
	}
	return a
}

// provisioned returns a Cluster with machines of CAPT and of Cluster API, nodes and
// add-ons.
func provisioned() *describe.Objects {
	o := &describe.Objects{Cluster: demo()}
	o.Cluster.Status.Conditions = append(condition("Available", metav1.ConditionTrue, "Available", "", time.Minute),
		condition("RemoteConnectionProbe", metav1.ConditionTrue, "ProbeSucceeded", "", time.Minute)...)
	o.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	o.Cluster.Spec = clusterv1.ClusterSpec{}
	cp := &controlplanev1.CAPTControlPlane{ObjectMeta: named("CAPTControlPlane/demo", "Cluster/demo")}
	cp.Status.Conditions, cp.Status.Version = ready(time.Minute), "v1.33.4"
	cp.Spec.ControlPlaneEndpoint.Host = "eks.example.com"
	deployment := &infrav1.CAPTMachineDeployment{ObjectMeta: named("CAPTMachineDeployment/workers", "CAPTControlPlane/demo")}
	deployment.Labels = nil
	deployment.Spec.ClusterName, deployment.Spec.Replicas, deployment.Status.ReadyReplicas = "demo", new(int32(2)), new(int32(1))
	deployment.Status.Conditions = condition("Ready", metav1.ConditionFalse, "NotEnoughMachines", "Available: 1 machine is missing", time.Minute)
	set := &infrav1.CAPTMachineSet{ObjectMeta: named("CAPTMachineSet/workers-1", "CAPTMachineDeployment/workers")}
	set.Spec.Replicas, set.Status.ReadyReplicas = new(int32(2)), new(int32(1))
	set.Status.Conditions = ready(time.Minute)
	machine := &infrav1.CAPTMachine{ObjectMeta: named("CAPTMachine/workers-1-a", "CAPTMachineSet/workers-1")}
	machine.Status.Conditions = condition("Ready", metav1.ConditionFalse, "WorkspaceFailed", "InstanceReady: no capacity", time.Minute)
	failed := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("WorkspaceTemplateApply/workers-1-a", "CAPTMachine/workers-1-a")}
	failed.Status.Conditions = condition("Ready", metav1.ConditionFalse, "WaitingForApproval", "Applied: Plan plan-1 waits for approval", time.Minute)
	capi := &clusterv1.Machine{ObjectMeta: named("Machine/m", "MachineSet/deleted")}
	capi.Status.Conditions = ready(time.Minute)
	bound := &infrav1.CAPTMachine{ObjectMeta: named("CAPTMachine/m", "Machine/m")}
	bound.Status.Conditions = ready(time.Minute)
	set2 := &clusteraddonsv1.ClusterResourceSet{ObjectMeta: named("ClusterResourceSet/crs", "CAPTAddon/flux")}
	binding := &clusteraddonsv1.ClusterResourceSetBinding{ObjectMeta: named("ClusterResourceSetBinding/demo", "ClusterResourceSet/crs")}
	binding.Labels, binding.Spec.ClusterName = nil, "demo"
	binding.Spec.Bindings = []clusteraddonsv1.ResourceSetBinding{{Resources: []clusteraddonsv1.ResourceBinding{{Applied: new(true)}, {Applied: new(false)}}}}
	foreign := binding.DeepCopy()
	foreign.Name, foreign.Spec.ClusterName = "other", "other"
	o.Items = []client.Object{capi, bound, failed, machine, set, deployment, cp, set2, binding, foreign}
	o.Addons = []addonsv1.CAPTAddon{addon("flux")}
	o.Addons[0].Spec.Versions = &addonsv1.AddonVersions{Version: "2.9.5"}
	o.Addons[0].Status.Clusters = []addonsv1.ClusterAddonStatus{{Name: "demo", Ready: new(true), Reason: "Ready", Since: ago(time.Minute)}}
	o.Nodes = &describe.Nodes{Items: []corev1.Node{node("b", corev1.ConditionFalse), node("a", corev1.ConditionTrue)}}
	return o
}

func node(name string, status corev1.ConditionStatus) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large"}}}
	n.Status.NodeInfo.KubeletVersion = "v1.33.4"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "KubeletNotReady", LastTransitionTime: ago(time.Minute)}}
	return n
}

func TestTree_followsOwnersDownToMachinesAndNodes(t *testing.T) {
	NewWithT(t).Expect(render(t, describe.Build(provisioned(), false), text.Style{})).To(Equal(`
NAME                               STATUS                SINCE  MESSAGE
Cluster/demo                       ✓ Available           60s
├─CAPTControlPlane/demo            ✓ Ready               60s    Kubernetes v1.33.4 at eks.example.com
│ └─CAPTMachineDeployment/workers  … NotEnoughMachines   60s    1 of 2 machines ready: Available: 1 machine is missing
│   └─CAPTMachineSet/workers-1     … NotEnoughMachines   60s    1 of 2 machines ready
│     └─CAPTMachine/workers-1-a    ✗ WorkspaceFailed     60s    InstanceReady: no capacity
│       └─Workspace/workers-1-a    ! WaitingForApproval  60s    Applied: Plan plan-1 waits for approval
├─Machine/m                        ✓ Ready               60s
│ └─CAPTMachine/m                  ✓ Ready               60s
├─Addons
│ └─CAPTAddon/flux                 ✓ Ready               60s    2.9.5
└─Workload/API server              ✓ ProbeSucceeded      60s
  ├─Node/a                         ✓ Ready               60s    m5.large v1.33.4
  └─Node/b                         ✗ KubeletNotReady     60s
`))
}

func TestTree_showsDetailsWithAll(t *testing.T) {
	g := NewWithT(t)
	o := provisioned()
	tree := render(t, describe.Build(o, true), text.Style{})
	g.Expect(tree).To(ContainSubstring("│ └─CAPTAddon/flux                 ✓ Ready               60s    2.9.5\n│   └─ClusterResourceSet/crs\n"))
	g.Expect(tree).To(ContainSubstring("Condition/RemoteConnectionProbe"))
	g.Expect(squeeze(tree)).To(ContainSubstring("├─ClusterResourceSetBinding/demo … Applying 60m 1 of 2 resources applied"))
	g.Expect(tree).NotTo(ContainSubstring("Binding/other"))
}

func TestTree_showsMissingObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*describe.Objects)
		want   string
	}{
		"object that does not exist": {
			func(o *describe.Objects) {
				o.Cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTCluster", Name: "net"}
			},
			"├─CAPTCluster/net        … NotFound           The Cluster references it, but it does not exist: create it",
		},
		"object of another provider": {
			func(o *describe.Objects) {
				o.Cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OtherCluster", Name: "net"}
			},
			"├─OtherCluster/net       ? NotCAPT            Managed by another provider: see kubectl describe",
		},
		"object of a kind that cannot be listed": {
			func(o *describe.Objects) {
				o.Unread = []string{"CAPTCluster"}
				o.Cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTCluster", Name: "net"}
			},
			"├─CAPTCluster/net        ? NotReadable        Its kind cannot be listed",
		},
		"unreachable nodes": {
			func(o *describe.Objects) { o.Nodes = &describe.Nodes{Err: errors.New("connection refused")} },
			"  └─Nodes                ? NotSeen            Nodes cannot be listed: connection refused",
		},
		"no nodes": {
			func(o *describe.Objects) { o.Nodes = &describe.Nodes{} },
			"  └─Nodes                                     none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := provisioned()
			o.Items = o.Items[6:7] // The control plane.
			tc.change(o)
			tree := render(t, describe.Build(o, false), text.Style{})
			NewWithT(t).Expect(squeeze(tree)).To(ContainSubstring(squeeze(tc.want)))
		})
	}
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestTree_showsDeletionPauseAndDrift(t *testing.T) {
	o := provisioning()
	vpc := o.Items[1].(*infrav1.WorkspaceTemplateApply)
	vpc.Status.Drift = &infrav1.DriftStatus{Resources: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "update"}}}
	cp := o.Items[2].(*controlplanev1.CAPTControlPlane)
	cp.Status.Conditions = append(cp.Status.Conditions, condition("Paused", metav1.ConditionTrue, "Paused", "", 3*time.Minute)...)
	infra := o.Items[3].(*infrav1.CAPTCluster)
	infra.DeletionTimestamp = new(ago(2 * time.Minute))
	o.Addons = []addonsv1.CAPTAddon{addon("flux")}

	tree := squeeze(render(t, describe.Build(o, false), text.Style{}))
	g := NewWithT(t)
	g.Expect(tree).To(ContainSubstring("CAPTCluster/demo … Deleting 2m"))
	g.Expect(tree).To(ContainSubstring("CAPTAddon/flux ? NotReported"))
	g.Expect(tree).To(ContainSubstring("CAPTControlPlane/demo ! Paused 3m Reconciliation is paused. WorkspaceReady"))
	g.Expect(tree).To(ContainSubstring("Workspace/demo-vpc ! DriftDetected 8m Drift in 1 resource: see captctl drift demo-vpc"))

	o.Cluster.DeletionTimestamp, o.Items, o.Nodes = new(ago(time.Minute)), nil, &describe.Nodes{Err: errors.New("no Secret")}
	o.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	g.Expect(squeeze(render(t, describe.Build(o, false), text.Style{}))).To(Equal("NAME STATUS SINCE MESSAGE "+
		"Cluster/demo … Deleting 60s * ControlPlaneAvailable: * Run is applying "+
		"└─Workload/API server ✗ ProbeFailed 10m Remote connection not established yet"), "deleted objects are not missing")
}

func TestTree_collapsesManyReadyObjects(t *testing.T) {
	g := NewWithT(t)
	o := provisioned()
	o.Items, o.Addons, o.Nodes.Items = nil, nil, nil
	for i := range 12 {
		machine := &infrav1.CAPTMachine{ObjectMeta: named(fmt.Sprintf("CAPTMachine/m%02d", i), "Cluster/demo")}
		machine.Status.Conditions = ready(time.Minute)
		if i == 3 {
			machine.Status.Conditions = condition("Ready", metav1.ConditionFalse, "WaitingForNode", "", time.Minute)
		}
		o.Items = append(o.Items, machine)
		o.Nodes.Items = append(o.Nodes.Items, node(fmt.Sprintf("n%02d", i), corev1.ConditionTrue))
	}
	g.Expect(render(t, describe.Build(o, false), text.Style{})).To(Equal(`
NAME                   STATUS            SINCE  MESSAGE
Cluster/demo           ✓ Available       60s
├─CAPTMachine/m03      … WaitingForNode  60s
├─CAPTMachine          ✓ Ready                  11 more
└─Workload/API server  ✓ ProbeSucceeded  60s
  └─Node               ✓ Ready                  12 more
`))
	g.Expect(render(t, describe.Build(o, true), text.Style{})).To(ContainSubstring("Node/n11"))
}

func TestReady_coversTheWholeTree(t *testing.T) {
	g := NewWithT(t)
	o := provisioned()
	g.Expect(describe.Build(o, false).Ready()).To(BeFalse())
	o.Items, o.Nodes.Items = nil, o.Nodes.Items[1:]
	g.Expect(describe.Build(o, false).Ready()).To(BeTrue())
	o.Addons[0].Status.Clusters[0].Ready = new(false)
	g.Expect(describe.Build(o, false).Ready()).To(BeFalse())
}
