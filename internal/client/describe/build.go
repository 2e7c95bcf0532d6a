package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// Build returns the tree. With all, it includes implementation details:
// ClusterResourceSets, bootstrap configurations, all conditions, the latest
// finished runs and every node.
func Build(o *Objects, all bool) *Node {
	b := &builder{objects: o, all: all, children: map[types.UID][]client.Object{}}
	b.findParents()
	root := b.object(o.Cluster)
	if o.Cluster.DeletionTimestamp.IsZero() {
		b.addMissing(root, o.Cluster.Spec.ControlPlaneRef, "CAPTControlPlane")
		b.addMissing(root, o.Cluster.Spec.InfrastructureRef, "CAPTCluster")
	}
	root.add(b.addons())
	root.add(b.workload())
	return root
}

type builder struct {
	objects *Objects
	all     bool
	// children are the child objects of each object, by UID.
	children map[types.UID][]client.Object
}

// belongs reports whether an object belongs to the Cluster, by its owner, label or
// reference.
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
	return ref.Name == obj.GetName() && ref.Kind == object.Kind(obj)
}

// findParents fills children. The parent of an object is its controller, else its
// nearest owner, else the Cluster that it belongs to. An object of another Cluster
// has none.
func (b *builder) findParents() {
	known := map[types.UID]client.Object{b.objects.Cluster.UID: b.objects.Cluster}
	for _, obj := range b.objects.Items {
		known[obj.GetUID()] = obj
	}
	for i := range b.objects.Addons {
		known[b.objects.Addons[i].UID] = &b.objects.Addons[i]
	}
	for _, obj := range b.objects.Items {
		if !b.all && isDetail(obj) || belongsToOther(b.objects.Cluster, obj) {
			continue
		}
		if parent := parentOf(obj, known); parent != "" {
			b.children[parent] = append(b.children[parent], obj)
		} else if belongs(b.objects.Cluster, obj) {
			b.children[b.objects.Cluster.UID] = append(b.children[b.objects.Cluster.UID], obj)
		}
	}
}

// belongsToOther reports whether an object belongs to another Cluster.
func belongsToOther(cluster *clusterv1.Cluster, obj client.Object) bool {
	if binding, ok := obj.(*clusteraddonsv1.ClusterResourceSetBinding); ok {
		return binding.Spec.ClusterName != cluster.Name
	}
	name, labelled := obj.GetLabels()[clusterv1.ClusterNameLabel]
	return labelled && name != cluster.Name
}

// isDetail reports whether an object is an implementation detail.
func isDetail(obj client.Object) bool {
	switch obj.(type) {
	case *bootstrapv1.CAPTBootstrapConfig, *clusteraddonsv1.ClusterResourceSet, *clusteraddonsv1.ClusterResourceSetBinding:
		return true
	}
	return false
}

// parentOf returns the UID of an object's nearest known owner, or "".
func parentOf(obj client.Object, known map[types.UID]client.Object) types.UID {
	if _, ok := obj.(*clusteraddonsv1.ClusterResourceSetBinding); ok {
		// Several ClusterResourceSets own it: it is shown below the Cluster.
		return ""
	}
	if owner := metav1.GetControllerOf(obj); owner != nil && known[owner.UID] != nil {
		return owner.UID
	}
	var parent types.UID
	for _, owner := range obj.GetOwnerReferences() {
		// The Cluster is often an owner in addition to a nearer one.
		if candidate := known[owner.UID]; candidate != nil && (parent == "" || rank(candidate) > rank(known[parent])) {
			parent = owner.UID
		}
	}
	return parent
}

// kindOrder is the order of kinds among siblings. A kind is never the parent of an
// earlier one.
var kindOrder = []string{
	"Cluster", "CAPTAddon", "CAPTCluster", "CAPTControlPlane", "CAPTMachineDeployment", "MachineDeployment", "MachinePool", "CAPTMachinePool",
	"CAPTMachineSet", "MachineSet", "Machine", "CAPTMachine", "CAPTBootstrapConfig", "ClusterResourceSet", "ClusterResourceSetBinding",
	"WorkspaceTemplateApply",
}

func rank(obj client.Object) int { return slices.Index(kindOrder, object.Kind(obj)) }

// object returns the node of an object with its descendants.
func (b *builder) object(obj client.Object) *Node {
	n := &Node{Kind: object.Kind(obj), Name: obj.GetName()}
	setStatus(n, obj)
	b.addKindDetails(n, obj)
	if b.all {
		n.Children = append(conditionNodes(obj), n.Children...)
	}
	n.Children = append(n.Children, b.childNodes(obj)...)
	n.shortenMessage()
	return n
}

// shortenMessage removes from a message what the node of a child workspace
// repeats.
func (n *Node) shortenMessage() {
	for _, child := range n.Children {
		if child.Kind != workspaceKind || child.State == StateReady {
			continue
		}
		if i := strings.Index(n.Message, " "+child.Name+": "); i >= 0 {
			n.Message = n.Message[:i+1+len(child.Name)]
		}
	}
}

// workspaceKind is the short name of a WorkspaceTemplateApply in the tree.
const workspaceKind = "Workspace"

// childNodes returns the nodes of an object's children.
func (b *builder) childNodes(obj client.Object) []*Node {
	children := b.children[obj.GetUID()]
	// Owner references may form a cycle: visit no object twice.
	delete(b.children, obj.GetUID())
	slices.SortStableFunc(children, func(x, y client.Object) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.GetName(), y.GetName()))
	})
	var nodes []*Node
	for _, child := range children {
		nodes = append(nodes, b.object(child))
	}
	if b.all {
		return nodes
	}
	return collapsed(nodes)
}

// maxReady is the number of ready nodes of a kind that are shown one by one.
const maxReady = 10

// collapsed replaces the ready nodes of a kind by one node with their number if
// there are more than maxReady. Nodes of a kind must be adjacent.
func collapsed(nodes []*Node) []*Node {
	ready := map[string]int{}
	for _, n := range nodes {
		if n.Ready() {
			ready[n.Kind]++
		}
	}
	var shown []*Node
	for i, n := range nodes {
		if ready[n.Kind] <= maxReady || !n.Ready() {
			shown = append(shown, n)
		}
		if last := i == len(nodes)-1 || nodes[i+1].Kind != n.Kind; last && ready[n.Kind] > maxReady {
			shown = append(shown, &Node{Kind: n.Kind, State: StateReady, Reason: "Ready", Message: fmt.Sprintf("%d more", ready[n.Kind])})
		}
	}
	return shown
}

// addKindDetails adds the details that are specific to a kind.
func (b *builder) addKindDetails(n *Node, obj client.Object) {
	switch obj := obj.(type) {
	case *infrav1.WorkspaceTemplateApply:
		n.Kind = workspaceKind
		b.addWorkspace(n, obj)
	case *controlplanev1.CAPTControlPlane:
		if n.State == StateReady && obj.Status.Version != "" {
			n.Message = "Kubernetes " + obj.Status.Version
			if host := obj.Spec.ControlPlaneEndpoint.Host; host != "" {
				n.Message += " at " + host
			}
		}
	case *infrav1.CAPTMachineDeployment:
		n.addMachineCount(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *infrav1.CAPTMachineSet:
		n.addMachineCount(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachineDeployment:
		n.addMachineCount(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachineSet:
		n.addMachineCount(obj.Status.ReadyReplicas, obj.Spec.Replicas)
	case *clusterv1.MachinePool:
		n.addMachineCount(obj.Status.ReadyReplicas, obj.Spec.Replicas)
		if summaryCondition(obj) == nil {
			n.setPoolStatus(obj)
		}
	case *clusteraddonsv1.ClusterResourceSet:
		// Its conditions do not report whether the resources were applied.
		n.State, n.Reason, n.Message, n.Since = "", "", "", metav1.Time{}
	case *clusteraddonsv1.ClusterResourceSetBinding:
		n.setBindingStatus(obj)
	}
}

// addMachineCount adds the number of ready machines to the message.
func (n *Node) addMachineCount(readyReplicas, replicas *int32) {
	ready, desired := ptr.Deref(readyReplicas, 0), ptr.Deref(replicas, 0)
	count := fmt.Sprintf("%d of %d machines ready", ready, desired)
	if n.State == StateReady && ready < desired {
		n.State, n.Reason = StateWaiting, infrav1.NotEnoughMachinesReason
	}
	if n.Message == "" {
		n.Message = count
		return
	}
	n.Message = count + ": " + n.Message
}

// setPoolStatus sets the status of a MachinePool from its phase: not every release
// of Cluster API reports conditions for it.
func (n *Node) setPoolStatus(pool *clusterv1.MachinePool) {
	n.State, n.Reason = StateWaiting, pool.Status.Phase
	if ptr.Deref(pool.Status.ReadyReplicas, 0) >= ptr.Deref(pool.Spec.Replicas, 0) && pool.Status.Phase == string(clusterv1.MachinePoolPhaseRunning) {
		n.State = StateReady
	}
}

// setBindingStatus sets the status of a binding from its applied resources.
func (n *Node) setBindingStatus(binding *clusteraddonsv1.ClusterResourceSetBinding) {
	applied, total := 0, 0
	for _, set := range binding.Spec.Bindings {
		for _, resource := range set.Resources {
			total++
			if ptr.Deref(resource.Applied, false) {
				applied++
			}
		}
	}
	n.State, n.Reason, n.Message = StateReady, "Applied", fmt.Sprintf("%d of %d resources applied", applied, total)
	if applied < total {
		n.State, n.Reason = StateWaiting, "Applying"
	}
}

// addMissing adds a node for an object that the Cluster references and that was
// not read: it does not exist, its kind could not be listed, or is not CAPT's.
func (b *builder) addMissing(root *Node, ref clusterv1.ContractVersionedObjectReference, ours string) {
	if ref.Name == "" || slices.ContainsFunc(root.Children, func(n *Node) bool { return n.Kind == ref.Kind && n.Name == ref.Name }) {
		return
	}
	n := &Node{Kind: ref.Kind, Name: ref.Name, State: StateUnknown, Reason: "NotCAPT", Message: "Managed by another provider: see kubectl describe"}
	switch {
	case slices.Contains(b.objects.Unread, ref.Kind):
		n.Reason, n.Message = "NotReadable", "Its kind cannot be listed"
	case ref.Kind == ours:
		n.State, n.Reason, n.Message = StateWaiting, "NotFound", "The Cluster references it, but it does not exist: create it"
	}
	root.Children = slices.Insert(root.Children, 0, n)
}

// conditionNodes returns a node for each condition of an object except for the
// summary condition.
func conditionNodes(obj client.Object) []*Node {
	var nodes []*Node
	summary := summaryCondition(obj)
	for _, c := range ConditionsOf(obj) {
		if summary != nil && c.Type == summary.Type {
			continue
		}
		nodes = append(nodes, &Node{Kind: "Condition", Name: c.Type, State: conditionState(&c), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime})
	}
	return nodes
}

// negativeConditions are the conditions with negative polarity: False is the
// normal state.
var negativeConditions = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition, clusterv1.MachineUpdatingCondition,
}

// conditionState returns the state that a condition describes.
func conditionState(c *metav1.Condition) State {
	if !slices.Contains(negativeConditions, c.Type) || c.Status == metav1.ConditionUnknown {
		return stateOf(c)
	}
	if c.Status == metav1.ConditionFalse {
		return StateReady
	}
	return StateWaiting
}
