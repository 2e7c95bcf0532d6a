package captcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/message"
)

// The users of a workload cluster decide how many objects it has, and how large they are. So
// they are read in pages, and only a description of each is kept.
const (
	// maxObjects is the number of objects that are described.
	maxObjects = 10_000
	// maxDescription is the size of a description in bytes.
	maxDescription = 1 << 10
)

// descriptions describe objects of a workload cluster.
type descriptions []string

// add adds the description of an object. It returns an error if there are too many.
func (d *descriptions) add(text string) error {
	if len(*d) == maxObjects {
		return fmt.Errorf("there are more than %d objects: delete some of them", maxObjects)
	}
	*d = append(*d, message.Truncate(text, maxDescription))
	return nil
}

// eachOf calls a function for all objects of kinds that the cluster has.
func eachOf(ctx context.Context, c client.Client, kinds []schema.GroupKind, each func(workloadObject) error) error {
	for _, kind := range kinds {
		mapping, err := c.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
		}
		newList := func() *unstructured.UnstructuredList {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
			return list
		}
		err = workload.EachPage(ctx, c, newList, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				if err := each(workloadObject{&page.Items[i], kind.Kind}); err != nil {
					return err
				}
			}
			return nil
		})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading objects of kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

// eachLoadBalancer calls a function for all objects that controllers create load balancers
// for.
func eachLoadBalancer(ctx context.Context, c client.Client, each func(workloadObject) error) error {
	err := workload.EachPage(ctx, c, func() *corev1.ServiceList { return &corev1.ServiceList{} }, func(page *corev1.ServiceList) error {
		for i := range page.Items {
			if page.Items[i].Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			if err := each(workloadObject{&page.Items[i], "Service"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading Services: %w", err)
	}
	return eachOf(ctx, c, loadBalancerKinds, each)
}
