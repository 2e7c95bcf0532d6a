package describe

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Build makes the tree. With all it also holds what is an implementation detail:
// ClusterResourceSets, bootstrap configurations, every condition, the latest
// finished runs and every node.
func Build(o *Objects, all bool) *Node {
	b := &builder{objects: o, all: all, children: map[types.UID][]client.Object{}}
	b.adopt()
	root := b.object(o.Cluster)
	if o.Cluster.DeletionTimestamp.IsZero() {
		b.missing(root, o.Cluster.Spec.ControlPlaneRef, "CAPTControlPlane")
		b.missing(root, o.Cluster.Spec.InfrastructureRef, "CAPTCluster")
	}
	root.add(b.addons())
	root.add(b.workload())
	return root
}

type builder struct {
	objects *Objects
	all     bool
	// children are the objects below the object of a UID.
	children map[types.UID][]client.Object
}

// belongs tells whether an object says itself that it is the Cluster's.
func belongs(cluster *clusterv1.Cluster, obj client.Object) bool {
	for _, owner := range obj.GetOwnerReferences() {
		if owner.UID == cluster.UID {
			return true
		}
	}
	if name, labelled := obj.GetLabels()[clusterv1.ClusterNameLabel]; labelled {
		return name == cluster.Name
	}
	switch obj := obj.(type) {
	case *clusteraddonsv1.ClusterResourceSetBinding:
		return obj.Spec.ClusterName == cluster.Name
	case *infrav1.CAPTMachineDeployment:
		return obj.Spec.ClusterName == cluster.Name
	case *infrav1.CAPTMachineSet:
		return obj.Spec.ClusterName == cluster.Name
	case *infrav1.CAPTCluster:
		return refersTo(cluster.Spec.InfrastructureRef, obj)
	case *controlplanev1.CAPTControlPlane:
		return refersTo(cluster.Spec.ControlPlaneRef, obj)
	}
	return false
}

func refersTo(ref clusterv1.ContractVersionedObjectReference, obj client.Object) bool {
	return ref.Name == obj.GetName() && ref.Kind == kindOf(obj)
}

// adopt finds the parent of each object: the owner that controls it, else any
// owner, else, by its label, the Cluster. An object that belongs to another
// Cluster has none.
func (b *builder) adopt() {
	known := map[types.UID]client.Object{b.objects.Cluster.UID: b.objects.Cluster}
	for _, obj := range b.objects.Items {
		known[obj.GetUID()] = obj
	}
	for i := range b.objects.Addons {
		known[b.objects.Addons[i].UID] = &b.objects.Addons[i]
	}
	for _, obj := range b.objects.Items {
		if !b.all && detail(obj) || foreign(b.objects.Cluster, obj) {
			continue
		}
		if parent := parentOf(obj, known); parent != "" {
			b.children[parent] = append(b.children[parent], obj)
		} else if belongs(b.objects.Cluster, obj) {
			b.children[b.objects.Cluster.UID] = append(b.children[b.objects.Cluster.UID], obj)
		}
	}
}

// foreign tells whether an object says itself that it is another Cluster's.
func foreign(cluster *clusterv1.Cluster, obj client.Object) bool {
	if binding, ok := obj.(*clusteraddonsv1.ClusterResourceSetBinding); ok {
		return binding.Spec.ClusterName != cluster.Name
	}
	name, labelled := obj.GetLabels()[clusterv1.ClusterNameLabel]
	return labelled && name != cluster.Name
}

// detail tells whether an object is an implementation detail.
func detail(obj client.Object) bool {
	switch obj.(type) {
	case *bootstrapv1.CAPTBootstrapConfig, *clusteraddonsv1.ClusterResourceSet, *clusteraddonsv1.ClusterResourceSetBinding:
		return true
	}
	return false
}

// parentOf is the owner of an object that stands closest above it.
func parentOf(obj client.Object, known map[types.UID]client.Object) types.UID {
	if _, ok := obj.(*clusteraddonsv1.ClusterResourceSetBinding); ok {
		// It belongs to several ClusterResourceSets, and is the Cluster's.
		return ""
	}
	if owner := metav1.GetControllerOf(obj); owner != nil && known[owner.UID] != nil {
		return owner.UID
	}
	var parent types.UID
	for _, owner := range obj.GetOwnerReferences() {
		// A Cluster owns many things beside the owner that is closer.
		if above := known[owner.UID]; above != nil && (parent == "" || rank(above) > rank(known[parent])) {
			parent = owner.UID
		}
	}
	return parent
}

// order is the order in which kinds stand beside each other; a later one stands
// below an earlier one.
var order = []string{
	"Cluster", "CAPTAddon", "CAPTCluster", "CAPTControlPlane", "CAPTMachineDeployment", "MachineDeployment", "MachinePool", "CAPTMachinePool",
	"CAPTMachineSet", "MachineSet", "Machine", "CAPTMachine", "CAPTBootstrapConfig", "ClusterResourceSet", "ClusterResourceSetBinding",
	"WorkspaceTemplateApply",
}

func rank(obj client.Object) int { return slices.Index(order, kindOf(obj)) }

// kindOf is the kind of an object: a typed client leaves its TypeMeta empty.
func kindOf(obj client.Object) string { return reflect.TypeOf(obj).Elem().Name() }

// object is the node of an object with all that is below it.
func (b *builder) object(obj client.Object) *Node {
	n := &Node{Kind: kindOf(obj), Name: obj.GetName()}
	judge(n, obj)
	b.enrich(n, obj)
	if b.all {
		n.Children = append(conditionNodes(obj), n.Children...)
	}
	n.Children = append(n.Children, b.below(obj)...)
	n.leaveToChildren()
	return n
}

// leaveToChildren shortens a message that repeats what a workspace below says
// of itself.
func (n *Node) leaveToChildren() {
	for _, child := range n.Children {
		if child.Kind != workspaceKind || child.State == StateReady {
			continue
		}
		if i := strings.Index(n.Message, " "+child.Name+": "); i >= 0 {
			n.Message = n.Message[:i+1+len(child.Name)]
		}
	}
}

// workspaceKind is what people call a WorkspaceTemplateApply.
const workspaceKind = "Workspace"

// below are the nodes of the objects below another.
func (b *builder) below(obj client.Object) []*Node {
	below := b.children[obj.GetUID()]
	// No object is visited twice, whatever its references say.
	delete(b.children, obj.GetUID())
	slices.SortStableFunc(below, func(x, y client.Object) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.GetName(), y.GetName()))
	})
	var nodes []*Node
	for _, child := range below {
		nodes = append(nodes, b.object(child))
	}
	if b.all {
		return nodes
	}
	return gathered(nodes)
}

// few is how many of a kind are shown one by one although all are ready.
const few = 10

// gathered replaces the ready ones of a kind by one line when they are many.
func gathered(nodes []*Node) []*Node {
	ready := map[string]int{}
	for _, n := range nodes {
		if n.Ready() {
			ready[n.Kind]++
		}
	}
	var shown []*Node
	for i, n := range nodes {
		if ready[n.Kind] <= few || !n.Ready() {
			shown = append(shown, n)
		}
		if last := i == len(nodes)-1 || nodes[i+1].Kind != n.Kind; last && ready[n.Kind] > few {
			shown = append(shown, &Node{Kind: n.Kind, State: StateReady, Reason: "Ready", Message: fmt.Sprintf("%d more", ready[n.Kind])})
		}
	}
	return shown
}

// enrich adds what only the kind knows.
func (b *builder) enrich(n *Node, obj client.Object) {
	switch obj := obj.(type) {
	case *infrav1.WorkspaceTemplateApply:
		n.Kind = workspaceKind
		b.workspace(n, obj)
	case *controlplanev1.CAPTControlPlane:
		if n.State == StateReady && obj.Status.Version != "" {
			n.Message = "Kubernetes " + obj.Status.Version
			if host := obj.Spec.ControlPlaneEndpoint.Host; host != "" {
				n.Message += " at " + host
			}
		}
	case *infrav1.CAPTMachineDeployment:
		n.countMachines(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *infrav1.CAPTMachineSet:
		n.countMachines(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachineDeployment:
		n.countMachines(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachineSet:
		n.countMachines(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachinePool:
		n.countMachines(obj.Status.ReadyReplicas, obj.Spec.Replicas)
		if headline(obj) == nil {
			n.poolState(obj)
		}
	case *clusteraddonsv1.ClusterResourceSet:
		// Its own conditions do not tell whether anything was applied.
		n.State, n.Reason, n.Message, n.Since = "", "", "", metav1.Time{}
	case *clusteraddonsv1.ClusterResourceSetBinding:
		n.binding(obj)
	}
}

// countMachines says how many of the wanted machines are ready.
func (n *Node) countMachines(ready, wanted *int32) {
	count := fmt.Sprintf("%d of %d machines ready", value(ready), value(wanted))
	if n.State == StateReady && value(ready) < value(wanted) {
		n.State, n.Reason = StateWaiting, infrav1.NotEnoughMachinesReason
	}
	if n.Message == "" {
		n.Message = count
		return
	}
	n.Message = count + ": " + n.Message
}

// poolState judges a MachinePool, which has no conditions in every release.
func (n *Node) poolState(pool *clusterv1.MachinePool) {
	n.State, n.Reason = StateWaiting, pool.Status.Phase
	if wanted := value(pool.Spec.Replicas); value(pool.Status.ReadyReplicas) >= wanted && pool.Status.Phase == string(clusterv1.MachinePoolPhaseRunning) {
		n.State = StateReady
	}
}

func (n *Node) binding(binding *clusteraddonsv1.ClusterResourceSetBinding) {
	applied, total := 0, 0
	for _, set := range binding.Spec.Bindings {
		for _, resource := range set.Resources {
			total++
			if resource.Applied != nil && *resource.Applied {
				applied++
			}
		}
	}
	n.State, n.Reason, n.Message = StateReady, "Applied", fmt.Sprintf("%d of %d resources applied", applied, total)
	if applied < total {
		n.State, n.Reason = StateWaiting, "Applying"
	}
}

func value(number *int32) int32 {
	if number == nil {
		return 0
	}
	return *number
}

// missing tells of an object that the Cluster names and that is not there.
func (b *builder) missing(root *Node, ref clusterv1.ContractVersionedObjectReference, ours string) {
	if ref.Name == "" || slices.ContainsFunc(root.Children, func(n *Node) bool { return n.Kind == ref.Kind && n.Name == ref.Name }) {
		return
	}
	n := &Node{Kind: ref.Kind, Name: ref.Name, State: StateUnknown, Reason: "NotCAPT", Message: "another provider's: see kubectl describe"}
	if ref.Kind == ours {
		n.State, n.Reason, n.Message = StateWaiting, "NotFound", "the Cluster names it, and it does not exist: create it"
	}
	root.Children = slices.Insert(root.Children, 0, n)
}

// conditionNodes are the conditions of an object, the headline aside.
func conditionNodes(obj client.Object) []*Node {
	says, ok := obj.(conditioned)
	if !ok {
		return nil
	}
	var nodes []*Node
	top := headline(obj)
	for _, c := range says.GetConditions() {
		if top != nil && c.Type == top.Type {
			continue
		}
		nodes = append(nodes, &Node{Kind: "Condition", Name: c.Type, State: conditionState(&c), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime})
	}
	return nodes
}

// inverted are conditions that are False when all is well.
var inverted = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition, clusterv1.MachineUpdatingCondition,
}

func conditionState(c *metav1.Condition) State {
	if !slices.Contains(inverted, c.Type) || c.Status == metav1.ConditionUnknown {
		return stateOf(c)
	}
	if c.Status == metav1.ConditionFalse {
		return StateReady
	}
	return StateWaiting
}
