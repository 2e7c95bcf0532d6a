// Package ownership finds the objects that another object controls, adopts those
// without a controller and releases those that no longer match: the machines of
// a set, and the sets of a deployment.
package ownership

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Action is what an owner does with an object that may be its own.
type Action int

// The actions.
const (
	// Ignore an object that has another controller or does not match.
	Ignore Action = iota
	// Keep an object that the owner controls.
	Keep
	// Adopt an object that matches and has no controller.
	Adopt
	// Release an object that the owner controls and that no longer matches.
	Release
)

// Owner is an object that controls the objects that its selector matches.
type Owner struct {
	metav1.Object
	Selector    labels.Selector
	ClusterName string
}

// Decide returns what to do with an object of the kind that the owner controls.
// An owner that is being deleted neither adopts nor releases. An object is not
// adopted if it is being deleted, belongs to another cluster, or was created by
// Cluster API for a Machine.
func (o Owner) Decide(obj metav1.Object) Action {
	matches := o.Selector.Matches(labels.Set(obj.GetLabels()))
	deleting := o.GetDeletionTimestamp() != nil
	switch controller := metav1.GetControllerOfNoCopy(obj); {
	case controller != nil && controller.UID != o.GetUID():
		return Ignore
	case controller != nil && (matches || deleting):
		return Keep
	case controller != nil:
		return Release
	case !matches, deleting, obj.GetDeletionTimestamp() != nil, o.GetNamespace() != obj.GetNamespace(), o.isForeign(obj):
		return Ignore
	}
	return Adopt
}

// isForeign reports whether an object without a controller belongs to another
// cluster or to an object of Cluster API.
func (o Owner) isForeign(obj metav1.Object) bool {
	if name, found := obj.GetLabels()[clusterv1.ClusterNameLabel]; found && name != o.ClusterName {
		return true
	}
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind != clusterv1.ClusterKind
	})
}

// withController returns owner references with controller as the controller.
func withController(refs []metav1.OwnerReference, controller metav1.OwnerReference) []metav1.OwnerReference {
	return append(withoutOwner(refs, controller), controller)
}

// withoutOwner returns owner references without those to owner.
func withoutOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == owner.UID })
}
