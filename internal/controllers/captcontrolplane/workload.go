package captcontrolplane

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
)

var (
	nodePools  = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
)

// deleteNodes deletes the node pools and node claims of Karpenter. Its nodes would
// remain in the cloud after the cluster is destroyed.
func (r *Reconciler) deleteNodes(ctx context.Context, s *scope) error {
	return r.deleteFromWorkload(ctx, s, skipNodes, controlplanev1.NodesGoneCondition, listNodes)
}

// deleteLoadBalancers deletes the Services of type LoadBalancer. Their load
// balancers would remain in the cloud and prevent the deletion of the VPC.
func (r *Reconciler) deleteLoadBalancers(ctx context.Context, s *scope) error {
	return r.deleteFromWorkload(ctx, s, skipLoadBalancers, controlplanev1.LoadBalancersGoneCondition, listLoadBalancers)
}

// workloadObject is an object of the workload cluster. Lists of typed objects do
// not set the kind of their items.
type workloadObject struct {
	client.Object
	kind string
}

// deleteFromWorkload runs a deletion step for objects of the workload cluster.
func (r *Reconciler) deleteFromWorkload(ctx context.Context, s *scope, name, condition string, list func(context.Context, client.Reader) ([]workloadObject, error)) error {
	return s.deletionStep(name, condition, func() ([]string, error) {
		c, err := r.workloadClient(ctx, s)
		if err != nil {
			return nil, unreachableError{err}
		}
		if c == nil {
			return nil, nil
		}
		objects, err := list(ctx, c)
		if err != nil {
			return nil, unreachableError{err}
		}
		var remaining []string
		for _, obj := range objects {
			remaining = append(remaining, obj.String())
			if err := obj.delete(ctx, c); err != nil {
				return nil, unreachableError{err}
			}
		}
		return remaining, nil
	})
}

// workloadClient returns a client of the workload cluster, or nil if the cluster
// was never available. An expired token is renewed.
func (r *Reconciler) workloadClient(ctx context.Context, s *scope) (client.Client, error) {
	if !isInitialized(s) {
		return nil, nil
	}
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, nil
	}
	if s.kubeconfigConfig().Source == controlplanev1.KubeconfigSourceEKS {
		if err := r.kubeconfig(ctx, s); err != nil {
			return nil, err
		}
	} else {
		s.kubeconfig = found.Data[secret.KubeconfigDataName]
	}
	return r.Workload.Client(s.kubeconfig)
}

// listNodes returns the node pools and node claims of Karpenter. A cluster without
// Karpenter has none.
func listNodes(ctx context.Context, c client.Reader) ([]workloadObject, error) {
	var objects []workloadObject
	for _, gvk := range []schema.GroupVersionKind{nodePools, nodeClaims} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			objects = append(objects, workloadObject{&list.Items[i], gvk.Kind})
		}
	}
	return objects, nil
}

// listLoadBalancers returns the Services of type LoadBalancer.
func listLoadBalancers(ctx context.Context, c client.Reader) ([]workloadObject, error) {
	var services corev1.ServiceList
	if err := c.List(ctx, &services); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	var objects []workloadObject
	for i := range services.Items {
		if services.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			objects = append(objects, workloadObject{&services.Items[i], "Service"})
		}
	}
	return objects, nil
}

// delete deletes the object unless it is being deleted already.
func (o workloadObject) delete(ctx context.Context, c client.Writer) error {
	if !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, o.Object)); err != nil {
		return fmt.Errorf("deleting %s: %w", o, err)
	}
	return nil
}

// String returns the name of the object, and the finalizers that delay its
// deletion.
func (o workloadObject) String() string {
	text := o.kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	if finalizers := o.GetFinalizers(); !o.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (finalizers: " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}
