package captcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// What the annotation may name, comma-separated, to be skipped.
const (
	skipNodes         = "nodes"
	skipLoadBalancers = "load-balancers"
	skipAddons        = "addons"
	skipMachines      = "machines"
)

const (
	// defaultDeletionStep is how long a step may take before it is reported.
	defaultDeletionStep = 15 * time.Minute
	// deletionLook is how often what is in the workload cluster is looked at
	// while it goes.
	deletionLook = 5 * time.Second
	// mostNamed is how many objects a message names.
	mostNamed = 5
)

// step runs a step of the deletion: remove asks everything to go and names what
// is left. A step that takes too long says so, and how to go on without it.
func (r *Reconciler) step(s *scope, name, condition string, remove func() (left []string, err error)) error {
	if s.released() || slices.Contains(s.skipped(), name) {
		return nil
	}
	left, err := remove()
	if err == nil && len(left) == 0 {
		return nil
	}
	overdue := s.now.Sub(s.since(condition)) > s.deletionStep()
	how := fmt.Sprintf("; to go on without them, set the annotation %s: %s", controlplanev1.SkipDeletionChecksAnnotation, name)
	if err != nil {
		if overdue {
			return fault.WaitFor(deletionLook, controlplanev1.DeadlineExceededReason, "The workload cluster cannot be asked: %w%s", err, how)
		}
		return fault.WaitFor(deletionLook, controlplanev1.APIServerUnreachableReason, "The workload cluster cannot be asked: %w", err)
	}
	text := strings.Join(left[:min(len(left), mostNamed)], ", ")
	if more := len(left) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if overdue {
		return fault.WaitFor(deletionLook, controlplanev1.DeadlineExceededReason, "Still there after %s: %s%s", s.deletionStep(), text, how)
	}
	return fault.WaitFor(deletionLook, infrav1.DeletingReason, "Waiting for %s", text)
}

// released tells whether the control plane itself is going or gone. What had to
// go before it has gone, and nobody is there to be asked about it.
func (s *scope) released() bool {
	return s.apply == nil || !s.apply.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(s.apply, infrav1.WorkspaceHeldFinalizer)
}

func (s *scope) skipped() []string {
	var names []string
	for name := range strings.SplitSeq(s.controlPlane.Annotations[controlplanev1.SkipDeletionChecksAnnotation], ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// since tells when a step began to wait.
func (s *scope) since(condition string) time.Time {
	if c := conditions.Get(s.controlPlane, condition); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return s.now
}

func (s *scope) deletionStep() time.Duration {
	if c := s.controlPlane.Spec.ControlPlaneConfig; c != nil && c.Timeouts != nil && c.Timeouts.DeletionStep != nil {
		return c.Timeouts.DeletionStep.Duration
	}
	return defaultDeletionStep
}

// find reads what the steps of the deletion share: the workspace, and the
// infrastructure, which knows the region.
func (r *Reconciler) find(ctx context.Context, s *scope) (err error) {
	if s.apply, err = r.Workspaces.Find(ctx, s.controlPlane); err != nil {
		return err
	}
	if s.cluster == nil || !infrav1.IsCAPTCluster(s.cluster.Spec.InfrastructureRef) {
		return nil
	}
	infra := &infrav1.CAPTCluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}, infra)
	if err == nil {
		s.infra = infra
	}
	return client.IgnoreNotFound(err)
}

// workloadClient reaches the workload cluster while it lives, or returns nil
// when there never was one. A token is renewed on the way.
func (r *Reconciler) workloadClient(ctx context.Context, s *scope) (client.Client, error) {
	if !initialized(s) {
		return nil, nil
	}
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, nil
	}
	if s.source().Source == controlplanev1.KubeconfigSourceEKS {
		if err := r.kubeconfig(ctx, s); err != nil {
			return nil, err
		}
	} else {
		s.config = found.Data[secret.KubeconfigDataName]
	}
	return r.Workload.Client(s.config)
}

var (
	nodePools  = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
)

// nodesGone has Karpenter remove its nodes: nobody else knows of them once the
// cluster is gone.
func (r *Reconciler) nodesGone(ctx context.Context, s *scope) error {
	return r.step(s, skipNodes, controlplanev1.NodesGoneCondition, func() ([]string, error) {
		c, err := r.workloadClient(ctx, s)
		if err != nil || c == nil {
			return nil, err
		}
		var left []string
		for _, gvk := range []schema.GroupVersionKind{nodePools, nodeClaims} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			err := c.List(ctx, list)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("listing %ss: %w", gvk.Kind, err)
			}
			for i := range list.Items {
				left = append(left, describe(&list.Items[i]))
				if err := remove(ctx, c, &list.Items[i]); err != nil {
					return nil, err
				}
			}
		}
		return left, nil
	})
}

// loadBalancersGone removes the Services that have a load balancer in the
// cloud, which would be left behind, and keep the VPC from going.
func (r *Reconciler) loadBalancersGone(ctx context.Context, s *scope) error {
	return r.step(s, skipLoadBalancers, controlplanev1.LoadBalancersGoneCondition, func() ([]string, error) {
		c, err := r.workloadClient(ctx, s)
		if err != nil || c == nil {
			return nil, err
		}
		var services corev1.ServiceList
		if err := c.List(ctx, &services); err != nil {
			return nil, fmt.Errorf("listing Services: %w", err)
		}
		var left []string
		for i := range services.Items {
			service := &services.Items[i]
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			left = append(left, describe(service))
			if err := remove(ctx, c, service); err != nil {
				return nil, err
			}
		}
		return left, nil
	})
}

func remove(ctx context.Context, c client.Client, obj client.Object) error {
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, obj)); err != nil {
		return fmt.Errorf("deleting %s: %w", describe(obj), err)
	}
	return nil
}

// describe names an object and what keeps it.
func describe(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = "Service"
	}
	text := kind + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
	if finalizers := obj.GetFinalizers(); !obj.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (kept by " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}

// destroy takes the control plane away.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.controlPlane, false)
}
