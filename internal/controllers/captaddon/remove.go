package captaddon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// removalLook is how often objects that are being removed are observed, where no
	// watch tells.
	removalLook = 5 * time.Second
	// namespacePatience is how long a removal may take before a namespace is
	// waited for only once more: its content may be about to go. One that is in
	// use after that stays.
	namespacePatience = 30 * time.Second
	// contentOf begins what is said while a namespace is waited for.
	contentOf = "what is in "
)

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
	removes := s.addon.Spec.DeletionPolicy == addonsv1.DeletionPolicyRemove && st.cluster != nil && !st.kept(s.addon.Name)
	if removes && st.leaving() && !st.emptied() {
		// Karpenter and load balancer controllers have work to do until then.
		return fault.Wait(addonsv1.RemovingReason, "Waiting for the cluster's nodes and load balancers to go")
	}
	if removes {
		for _, d := range render.Dependents(s.addon.Name, s.all) {
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

// kept reports whether the installed objects must stay in this cluster.
// In one that is deleted nothing can.
func (st *standing) kept(addon string) bool {
	if st.leaving() {
		return false
	}
	for name := range strings.SplitSeq(st.cluster.Annotations[addonsv1.LeaveAddonsAnnotation], ",") {
		if strings.TrimSpace(name) == addon {
			return true
		}
	}
	return false
}

// leaving reports whether the cluster itself is being deleted.
func (st *standing) leaving() bool { return !st.cluster.DeletionTimestamp.IsZero() }

// emptied reports whether the deletion of the cluster has reached its add-ons.
func (st *standing) emptied() bool {
	if st.controlPlane == nil {
		return true
	}
	return conditions.IsTrue(st.controlPlane, controlplanev1.LoadBalancersGoneCondition) && !st.controlPlane.DeletionTimestamp.IsZero()
}

// connected reports whether there is a connection to the cluster.
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
	return st.removal(s, c).inOrder(ctx, objects)
}

// removal is how objects of an add-on are removed from a cluster.
type removal struct {
	c     client.Client
	addon string
	// leaving tells that the cluster itself goes, patient that what is in a
	// namespace may be about to go by itself.
	leaving, patient bool
}

func (st *standing) removal(s *scope, c client.Client) *removal {
	waited := st.was.Reason == addonsv1.RemovingReason && strings.Contains(st.was.Message, contentOf)
	patient := !waited || s.now.Sub(st.was.Since.Time) < namespacePatience
	return &removal{c: c, addon: s.addon.Name, leaving: st.leaving(), patient: patient}
}

// inOrder deletes objects in the reverse of the order they were applied in.
func (r *removal) inOrder(ctx context.Context, objects []*unstructured.Unstructured) error {
	slices.Reverse(objects)
	stages := [][]*unstructured.Unstructured{
		choose(objects, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "HelmRelease" }),
		choose(objects, func(gvk schema.GroupVersionKind) bool { return custom(gvk) && gvk.Kind != "HelmRelease" }),
	}
	if !r.leaving {
		definitions := choose(objects, isDefinition)
		if err := r.unused(ctx, definitions, objects); err != nil {
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
		if err := r.stage(ctx, stage); err != nil {
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
	objects, err := pruned(st.secret)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := manifest.Parse(data[key])
		if err != nil {
			return nil, fmt.Errorf("reading the rendered Secret: %w", err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// stage deletes objects and waits until they are gone.
func (r *removal) stage(ctx context.Context, objects []*unstructured.Unstructured) error {
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
		case live.GetLabels()[addonsv1.AddonLabel] != r.addon:
			// Another owner has adopted it.
			continue
		}
		if live.GetKind() == "Namespace" && live.GetDeletionTimestamp().IsZero() {
			inUse, err := occupied(ctx, r.c, live.GetName())
			if err != nil {
				return err
			}
			if inUse && r.patient {
				left = append(left, contentOf+describe(live))
			}
			if inUse {
				continue
			}
		}
		gone, err := r.remove(ctx, live)
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
	return fault.WaitFor(removalLook, addonsv1.RemovingReason, "Waiting for %s", strings.Join(left[:min(len(left), mostNamed)], ", "))
}

// remove deletes an object, and reports whether it is gone at once. What belongs
// to an object of an add-on's own kind goes first, as the nodes of a node pool:
// who ends them may be the next add-on to go.
func (r *removal) remove(ctx context.Context, live *unstructured.Unstructured) (gone bool, err error) {
	if !live.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	policy := metav1.DeletePropagationBackground
	if custom(live.GroupVersionKind()) {
		policy = metav1.DeletePropagationForeground
	}
	// Never a new object of the same name that was created meanwhile.
	this := client.Preconditions{UID: new(live.GetUID())}
	if err := client.IgnoreNotFound(r.c.Delete(ctx, live, this, client.PropagationPolicy(policy))); err != nil {
		return false, fmt.Errorf("deleting %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	err = r.c.Get(ctx, client.ObjectKeyFromObject(live), live.DeepCopy())
	return apierrors.IsNotFound(err), nil
}

// describe names an object and what keeps it.
func describe(obj *unstructured.Unstructured) string {
	text := render.Object{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()
	if finalizers := obj.GetFinalizers(); !obj.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (kept by " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}

// unused refuses to take a kind away while others have objects of it, which
// would go with it.
func (r *removal) unused(ctx context.Context, definitions, ours []*unstructured.Unstructured) error {
	c := r.c
	for _, named := range definitions {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(named.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(named), definition); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("reading %s: %w", named.GetName(), err)
		}
		if definition.GetLabels()[addonsv1.AddonLabel] != r.addon {
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

// occupied reports whether a namespace contains objects that are not the add-on's. Pods that
// are ending are lost anyway.
func occupied(ctx context.Context, c client.Client, namespace string) (bool, error) {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("listing what is in namespace %s: %w", namespace, err)
		}
		pods, ok := list.(*corev1.PodList)
		if ok {
			pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
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

// custom reports whether a kind comes from a CustomResourceDefinition.
func custom(gvk schema.GroupVersionKind) bool {
	return strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io")
}
