package captaddon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// removalInterval is how often the deletion of objects is checked. They are not
	// watched.
	removalInterval = 5 * time.Second
	// contentOf precedes a namespace in a message that waits for its content.
	contentOf = "the content of "
)

// remover removes objects of an add-on from a workload cluster.
type remover struct {
	c     client.Client
	addon string
	// clusterDeleting reports that the Cluster is being deleted.
	clusterDeleting bool
	// waitsForNamespaces reports that the content of a namespace may be about to be
	// deleted.
	waitsForNamespaces bool
}

// removeAll deletes objects stage by stage. It returns a fault until all of them
// are gone.
func (r *remover) removeAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	if !r.clusterDeleting {
		if err := r.checkDefinitionsUnused(ctx, objects); err != nil {
			return err
		}
	}
	for _, stage := range removalStages(objects, r.clusterDeleting) {
		if err := r.removeStage(ctx, stage); err != nil {
			return err
		}
	}
	return nil
}

// removalStages returns objects in the order of their deletion, which is the
// reverse of the order in which they were applied: Helm releases, other custom
// resources, built-in kinds, CRDs, namespaces. A cluster that is being deleted
// needs only the first two, which controllers have to clean up.
func removalStages(objects []*unstructured.Unstructured, clusterDeleting bool) [][]*unstructured.Unstructured {
	stages := make([][]*unstructured.Unstructured, 5)
	for _, obj := range slices.Backward(objects) {
		stage := 0
		switch gvk := obj.GroupVersionKind(); {
		case gvk.Kind == "HelmRelease":
		case isCustom(gvk):
			stage = 1
		case isDefinition(gvk):
			stage = 3
		case gvk.Kind == "Namespace":
			stage = 4
		default:
			stage = 2
		}
		stages[stage] = append(stages[stage], obj)
	}
	if clusterDeleting {
		return stages[:2]
	}
	return stages
}

// removeStage deletes objects. It returns a fault until they are gone.
func (r *remover) removeStage(ctx context.Context, objects []*unstructured.Unstructured) error {
	var left []string
	for _, obj := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GroupVersionKind())
		err := r.c.Get(ctx, client.ObjectKeyFromObject(obj), live)
		switch {
		case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", obj.GetKind(), obj.GetName(), err)
		case !r.owns(live):
			continue
		}
		if live.GetKind() == "Namespace" && live.GetDeletionTimestamp().IsZero() {
			inUse, err := isInUse(ctx, r.c, live.GetName())
			if err != nil {
				return err
			}
			if inUse && r.waitsForNamespaces {
				left = append(left, contentOf+describe(live))
			}
			if inUse {
				continue
			}
		}
		gone, err := r.removeObject(ctx, live)
		if err != nil {
			return err
		}
		if !gone {
			left = append(left, describe(live))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fault.WaitFor(removalInterval, addonsv1.RemovingReason, "Waiting for %s to be deleted", message.List(left, maxListed))
}

// owns reports whether an object still has the label of the add-on. Without it,
// another owner has adopted the object.
func (r *remover) owns(obj *unstructured.Unstructured) bool {
	return obj.GetLabels()[addonsv1.AddonLabel] == r.addon
}

// removeObject deletes an object, and reports whether it is gone at once. The
// dependents of a custom resource are deleted first, such as the nodes of a node
// pool: the controller that deletes them may be the next add-on to be removed.
func (r *remover) removeObject(ctx context.Context, live *unstructured.Unstructured) (gone bool, err error) {
	if !live.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	policy := metav1.DeletePropagationBackground
	if isCustom(live.GroupVersionKind()) {
		policy = metav1.DeletePropagationForeground
	}
	// The UID protects a new object of the same name.
	precondition := client.Preconditions{UID: new(live.GetUID())}
	if err := client.IgnoreNotFound(r.c.Delete(ctx, live, precondition, client.PropagationPolicy(policy))); err != nil {
		return false, fmt.Errorf("deleting %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	err = r.c.Get(ctx, client.ObjectKeyFromObject(live), live.DeepCopy())
	return apierrors.IsNotFound(err), nil
}

// describe returns an object and the finalizers that block its deletion.
func describe(obj *unstructured.Unstructured) string {
	text := render.IdentityOf(obj).String()
	if finalizers := obj.GetFinalizers(); !obj.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (finalizers: " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}

// checkDefinitionsUnused returns a fault if a CRD among the objects has custom
// resources of others, which would be deleted with it.
func (r *remover) checkDefinitionsUnused(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range slices.Backward(objects) {
		if !isDefinition(obj.GroupVersionKind()) {
			continue
		}
		if err := r.checkDefinitionUnused(ctx, obj, objects); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) checkDefinitionUnused(ctx context.Context, obj *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(obj.GroupVersionKind())
	if err := r.c.Get(ctx, client.ObjectKeyFromObject(obj), definition); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading %s: %w", obj.GetName(), err)
	}
	if !r.owns(definition) {
		// It is not deleted.
		return nil
	}
	group, _, err := unstructured.NestedString(definition.Object, "spec", "group")
	if err != nil {
		return fmt.Errorf("reading %s: %w", definition.GetName(), err)
	}
	kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	if err != nil {
		return fmt.Errorf("reading %s: %w", definition.GetName(), err)
	}
	mapping, err := r.c.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind})
	if apimeta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up kind %s: %w", kind, err)
	}
	newList := func() *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind)
		return list
	}
	var foreign *unstructured.Unstructured
	err = workload.EachPage(ctx, r.c, newList, func(page *unstructured.UnstructuredList) error {
		if foreign = firstForeign(page.Items, objects); foreign != nil {
			return workload.ErrStop
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	if foreign != nil {
		return fault.WaitFor(removalInterval, addonsv1.RemovingReason,
			"%s is of a kind that this add-on installed and would be deleted with it: delete it, or keep the kind by removing the label %s from CustomResourceDefinition %s",
			describe(foreign), addonsv1.AddonLabel, definition.GetName())
	}
	return nil
}

// firstForeign returns the first item that is not among the objects of the
// add-on, or nil.
func firstForeign(items []unstructured.Unstructured, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for i := range items {
		item := &items[i]
		isItem := func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind().GroupKind() == item.GroupVersionKind().GroupKind() && client.ObjectKeyFromObject(o) == client.ObjectKeyFromObject(item)
		}
		if !slices.ContainsFunc(objects, isItem) {
			return item
		}
	}
	return nil
}

// isInUse reports whether a namespace has objects that must not be deleted with
// it. Pods that are terminating do not count.
func isInUse(ctx context.Context, c client.Client, namespace string) (bool, error) {
	for _, empty := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		inUse := false
		newList := func() client.ObjectList { return empty.DeepCopyObject().(client.ObjectList) } //nolint:forcetypeassert // It is a copy.
		err := workload.EachPage(ctx, c, newList, func(page client.ObjectList) error {
			if pods, ok := page.(*corev1.PodList); ok {
				pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
			}
			if inUse = apimeta.LenList(page) > 0; inUse {
				return workload.ErrStop
			}
			return nil
		}, client.InNamespace(namespace))
		if err != nil {
			return false, fmt.Errorf("listing the content of namespace %s: %w", namespace, err)
		}
		if inUse {
			return true, nil
		}
	}
	return false, nil
}

// isDefinition reports whether a kind is CustomResourceDefinition.
func isDefinition(gvk schema.GroupVersionKind) bool { return gvk.Kind == "CustomResourceDefinition" }

// isCustom reports whether a kind is defined by a CustomResourceDefinition.
func isCustom(gvk schema.GroupVersionKind) bool {
	return strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io")
}
