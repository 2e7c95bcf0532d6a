package machines

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Claim is what an owner does about an object that may be its own.
type Claim int

// The claims.
const (
	// Ignore what belongs to somebody else, or to nobody we know.
	Ignore Claim = iota
	// Keep what is ours.
	Keep
	// Adopt what nobody owns and the selector finds.
	Adopt
	// Release what is ours and the selector does not find any more.
	Release
)

// Owner claims objects.
type Owner struct {
	metav1.Object
	Selector    labels.Selector
	ClusterName string
}

// Claim decides whether an object of the kind that the owner owns is its own.
// Who is being deleted takes nothing and leaves nothing. What is being deleted
// is not adopted, nor is an object of another cluster, or one that Cluster API
// made for a Machine.
func (o Owner) Claim(obj metav1.Object) Claim {
	matches := o.Selector.Matches(labels.Set(obj.GetLabels()))
	deleting := o.GetDeletionTimestamp() != nil
	switch controller := metav1.GetControllerOfNoCopy(obj); {
	case controller != nil && controller.UID != o.GetUID():
		return Ignore
	case controller != nil && (matches || deleting):
		return Keep
	case controller != nil:
		return Release
	case !matches, deleting, obj.GetDeletionTimestamp() != nil, o.GetNamespace() != obj.GetNamespace(), o.foreign(obj):
		return Ignore
	}
	return Adopt
}

// foreign tells whether an object without a controller has nevertheless a place
// elsewhere.
func (o Owner) foreign(obj metav1.Object) bool {
	if name, named := obj.GetLabels()[clusterv1.ClusterNameLabel]; named && name != o.ClusterName {
		return true
	}
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind != clusterv1.ClusterKind
	})
}

// Adopted are the owner references of an object with the owner as controller.
func Adopted(refs []metav1.OwnerReference, controller metav1.OwnerReference) []metav1.OwnerReference {
	return append(Released(refs, controller), controller)
}

// Released are the owner references of an object without the owner.
func Released(refs []metav1.OwnerReference, controller metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == controller.UID })
}
