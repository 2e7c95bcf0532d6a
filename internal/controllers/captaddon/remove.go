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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addons"
	"github.com/appthrust/capt/internal/fault"
)

// removalLook is how often what is being removed is looked at, where no watch
// tells.
const removalLook = 5 * time.Second

// leave takes the add-on back from a cluster that is not to have it any more, or
// leaves what was installed, as the policy says.
func (r *Reconciler) leave(ctx context.Context, s *scope, st *standing) error {
	if err := r.takeBack(ctx, s, st); err != nil {
		return st.explain(s, err)
	}
	st.gone = true
	return nil
}

func (r *Reconciler) takeBack(ctx context.Context, s *scope, st *standing) error {
	removes := s.addon.Spec.DeletionPolicy == addonsv1.DeletionPolicyRemove && st.cluster != nil
	if removes && st.leaving() && !st.emptied() {
		// Karpenter and load balancer controllers have work to do until then.
		return fault.Wait(addonsv1.RemovingReason, "Waiting for the cluster's nodes and load balancers to go")
	}
	if removes {
		for _, d := range addons.Dependents(s.addon.Name, s.all) {
			if has(d, st.name) {
				return fault.Wait(addonsv1.WaitingForDependentsReason, "Add-on %s depends on this one and goes first", d.Name)
			}
		}
	}
	if st.set != nil {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, st.set)); err != nil {
			return fmt.Errorf("deleting the ClusterResourceSet: %w", err)
		}
	}
	if removes && st.secret != nil && st.connected() {
		if err := r.removeObjects(ctx, s, st); err != nil {
			return err
		}
	}
	if st.secret != nil {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, st.secret)); err != nil {
			return fmt.Errorf("deleting the rendered Secret: %w", err)
		}
	}
	return nil
}

// leaving tells whether the cluster itself is being deleted.
func (st *standing) leaving() bool { return !st.cluster.DeletionTimestamp.IsZero() }

// emptied tells whether the deletion of the cluster has come to its add-ons.
func (st *standing) emptied() bool {
	if st.controlPlane == nil {
		return true
	}
	return conditions.IsTrue(st.controlPlane, controlplanev1.LoadBalancersGoneCondition) && !st.controlPlane.DeletionTimestamp.IsZero()
}

// connected tells whether there is somebody to talk to.
func (st *standing) connected() bool {
	return initialized(st) && (!st.leaving() || st.controlPlane != nil)
}

// removeObjects deletes what was applied: first what controllers have to clean
// up after, then the rest. In a cluster that goes itself, only the former.
func (r *Reconciler) removeObjects(ctx context.Context, s *scope, st *standing) error {
	c, err := r.Clusters.GetUncachedClient(ctx, st.key(s))
	if err != nil {
		return unreachable(err)
	}
	objects, err := r.appliedObjects(ctx, s, st)
	if err != nil {
		return err
	}
	return removeInOrder(ctx, c, s.addon.Name, objects, st.leaving())
}

// removeInOrder deletes objects in the reverse of the order they were applied in.
func removeInOrder(ctx context.Context, c client.Client, addon string, objects []*unstructured.Unstructured, leaving bool) error {
	slices.Reverse(objects)
	stages := [][]*unstructured.Unstructured{
		choose(objects, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "HelmRelease" }),
		choose(objects, func(gvk schema.GroupVersionKind) bool { return custom(gvk) && gvk.Kind != "HelmRelease" }),
	}
	if !leaving {
		definitions := choose(objects, isDefinition)
		if err := unused(ctx, c, addon, definitions, objects); err != nil {
			return err
		}
		stages = append(stages,
			choose(objects, func(gvk schema.GroupVersionKind) bool {
				return !custom(gvk) && !isDefinition(gvk) && gvk.Kind != "Namespace"
			}),
			definitions,
			choose(objects, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Namespace" }),
		)
	}
	for _, stage := range stages {
		if err := removeStage(ctx, c, addon, stage); err != nil {
			return err
		}
	}
	return nil
}

// appliedObjects are the objects of the rendered Secret, after those that an
// earlier one had and that are still to go.
func (r *Reconciler) appliedObjects(ctx context.Context, s *scope, st *standing) ([]*unstructured.Unstructured, error) {
	data, err := r.secretData(ctx, s.addon.Namespace, st.secret.Name, addonsv1.RemovingReason)
	if err != nil {
		return nil, err
	}
	rendered := &corev1.Secret{Data: data}
	objects, err := pruned(st.secret)
	if err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(rendered.Data) {
		parsed, err := addons.Parse(rendered.Data[key])
		if err != nil {
			return nil, fmt.Errorf("reading the rendered Secret: %w", err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// removeStage deletes objects and waits until they are gone.
func removeStage(ctx context.Context, c client.Client, addon string, objects []*unstructured.Unstructured) error {
	var left []string
	for _, obj := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(obj), live)
		switch {
		case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", obj.GetKind(), obj.GetName(), err)
		case live.GetLabels()[addonsv1.AddonLabel] != addon:
			// Somebody has taken it over.
			continue
		}
		if live.GetKind() == "Namespace" {
			if inUse, err := occupied(ctx, c, live.GetName()); err != nil || inUse {
				if err != nil {
					return err
				}
				continue
			}
		}
		if live.GetDeletionTimestamp().IsZero() {
			if err := client.IgnoreNotFound(c.Delete(ctx, live, client.PropagationPolicy("Background"))); err != nil {
				return fmt.Errorf("deleting %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
			// What nothing keeps is gone at once.
			if apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(obj), live)) {
				continue
			}
		}
		left = append(left, describe(live))
	}
	if len(left) == 0 {
		return nil
	}
	return fault.WaitFor(removalLook, addonsv1.RemovingReason, "Waiting for %s", strings.Join(left[:min(len(left), mostNamed)], ", "))
}

// describe names an object and what keeps it.
func describe(obj *unstructured.Unstructured) string {
	text := addons.Object{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()
	if finalizers := obj.GetFinalizers(); !obj.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (kept by " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}

// unused refuses to take a kind away while others have objects of it, which
// would go with it.
func unused(ctx context.Context, c client.Client, addon string, definitions, ours []*unstructured.Unstructured) error {
	for _, named := range definitions {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(named.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(named), definition); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("reading %s: %w", named.GetName(), err)
		}
		if definition.GetLabels()[addonsv1.AddonLabel] != addon {
			// It stays.
			continue
		}
		group, _, err := unstructured.NestedString(definition.Object, "spec", "group")
		if err != nil {
			return fmt.Errorf("reading %s: %w", definition.GetName(), err)
		}
		kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		if err != nil {
			return fmt.Errorf("reading %s: %w", definition.GetName(), err)
		}
		mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		if apimeta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for kind %s: %w", kind, err)
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind)
		if err := c.List(ctx, list); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("listing %s: %w", kind, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if slices.ContainsFunc(ours, func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind().GroupKind() == item.GroupVersionKind().GroupKind() && client.ObjectKeyFromObject(o) == client.ObjectKeyFromObject(item)
			}) {
				continue
			}
			return fault.WaitFor(removalLook, addonsv1.RemovingReason,
				"%s is of a kind that this add-on brought and would be lost with it: delete it, or keep the kind by taking the label %s off CustomResourceDefinition %s",
				describe(item), addonsv1.AddonLabel, definition.GetName())
		}
	}
	return nil
}

// occupied tells whether a namespace holds what is not ours to lose.
func occupied(ctx context.Context, c client.Client, namespace string) (bool, error) {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing what is in namespace %s: %w", namespace, err)
		}
		if apimeta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func choose(objects []*unstructured.Unstructured, match func(schema.GroupVersionKind) bool) []*unstructured.Unstructured {
	var chosen []*unstructured.Unstructured
	for _, obj := range objects {
		if match(obj.GroupVersionKind()) {
			chosen = append(chosen, obj)
		}
	}
	return chosen
}

func isDefinition(gvk schema.GroupVersionKind) bool { return gvk.Kind == "CustomResourceDefinition" }

// custom tells whether a kind comes from a CustomResourceDefinition.
func custom(gvk schema.GroupVersionKind) bool {
	return strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io")
}
