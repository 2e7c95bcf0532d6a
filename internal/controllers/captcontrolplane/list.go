package captcontrolplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/message"
)

// The users of a workload cluster decide how many objects it has, and how large they are. So
// they are read in pages, and little is kept of each.
const (
	// maxKept limits the memory of what is kept of all objects of a kind, in bytes: that is
	// enough for 5,000 nodes.
	maxKept = 16 << 20
	// maxEntries is the number of entries that are kept of a list, and maxEntry the size of a
	// text in bytes.
	maxEntries = 10
	maxEntry   = 512
)

// keeper limits the memory of what is kept.
type keeper int

// keep returns an error if all that is kept with another object needs too much memory.
func (k *keeper) keep(obj any) error {
	text, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding an object: %w", err)
	}
	if *k += keeper(1<<10 + 2*len(text)); *k > maxKept {
		return fmt.Errorf("there are so many that the manager would need more than %d MiB of memory for them: delete some of them", maxKept>>20)
	}
	return nil
}

// listKinds returns the objects of kinds that the cluster has.
func listKinds(ctx context.Context, c client.Client, kinds []schema.GroupKind) ([]workloadObject, error) {
	var objects []workloadObject
	for _, kind := range kinds {
		mapping, err := c.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
		}
		newList := func() *unstructured.UnstructuredList {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
			return list
		}
		var found []workloadObject
		var keeper keeper
		err = workload.EachPage(ctx, c, newList, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				kept := reduced(&page.Items[i])
				found = append(found, workloadObject{kept, kind.Kind})
				if err := keeper.keep(kept.Object); err != nil {
					return err
				}
			}
			return nil
		})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// listLoadBalancers returns the objects that controllers create load balancers for.
func listLoadBalancers(ctx context.Context, c client.Client) ([]workloadObject, error) {
	var objects []workloadObject
	var keeper keeper
	err := workload.EachPage(ctx, c, func() *corev1.ServiceList { return &corev1.ServiceList{} }, func(page *corev1.ServiceList) error {
		for i := range page.Items {
			if page.Items[i].Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			kept := reducedService(&page.Items[i])
			objects = append(objects, workloadObject{kept, "Service"})
			if err := keeper.keep(kept); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	others, err := listKinds(ctx, c, loadBalancerKinds)
	return append(objects, others...), err
}

// reducedService returns a Service with what the deletion reads of it.
func reducedService(service *corev1.Service) *corev1.Service {
	kept := &corev1.Service{}
	reduceMeta(service, kept)
	for _, ingress := range first(service.Status.LoadBalancer.Ingress) {
		kept.Status.LoadBalancer.Ingress = append(kept.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: short(ingress.Hostname), IP: short(ingress.IP)})
	}
	return kept
}

// reduced returns an object with what the deletion reads of it.
func reduced(obj *unstructured.Unstructured) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(obj.GroupVersionKind())
	reduceMeta(obj, kept)
	for _, path := range [][]string{
		{"spec", "suspend"}, {"spec", "nodeClassRef", "group"}, {"spec", "template", "spec", "nodeClassRef", "group"}, {"status", "providerID"},
	} {
		value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		switch value := value.(type) {
		case bool:
			_ = unstructured.SetNestedField(kept.Object, value, path...)
		case string:
			_ = unstructured.SetNestedField(kept.Object, short(value), path...)
		}
	}
	for _, path := range [][]string{{"status", "loadBalancer", "ingress"}, {"status", "addresses"}} {
		value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		entries, _ := value.([]any)
		var addresses []any
		for _, entry := range first(entries) {
			fields, _ := entry.(map[string]any)
			address := map[string]any{}
			for _, name := range addressFields {
				if text, _ := fields[name].(string); text != "" {
					address[name] = short(text)
				}
			}
			addresses = append(addresses, address)
		}
		if len(addresses) > 0 {
			_ = unstructured.SetNestedSlice(kept.Object, addresses, path...)
		}
	}
	return kept
}

// addressFields are the fields of an address in the cloud.
var addressFields = []string{"hostname", "ip", "value"}

// reduceMeta copies what the deletion reads of the metadata of an object.
func reduceMeta(from, to client.Object) {
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	if value := from.GetLabels()[addonsv1.AddonLabel]; value != "" {
		to.SetLabels(map[string]string{addonsv1.AddonLabel: value})
	}
	if value := from.GetAnnotations()[terminationAnnotation]; value != "" {
		to.SetAnnotations(map[string]string{terminationAnnotation: short(value)})
	}
	var finalizers []string
	for _, finalizer := range first(from.GetFinalizers()) {
		finalizers = append(finalizers, short(finalizer))
	}
	to.SetFinalizers(finalizers)
	if creator := firstManager(from.GetManagedFields()); creator != "" {
		to.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: short(creator)}})
	}
}

// firstManager returns the client that was the first to write an object, or an empty string.
func firstManager(fields []metav1.ManagedFieldsEntry) string {
	if len(fields) == 0 {
		return ""
	}
	return slices.MinFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return a.Time.Compare(b.Time.Time)
	}).Manager
}

func first[T any](entries []T) []T { return entries[:min(len(entries), maxEntries)] }

func short(text string) string { return message.Truncate(text, maxEntry) }
