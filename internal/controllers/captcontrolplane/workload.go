package captcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// Kinds of the workload cluster. The preferred version of a kind lists all its objects.
var (
	nodeKinds = []schema.GroupKind{
		{Group: "karpenter.sh", Kind: "NodePool"},
		{Group: "karpenter.sh", Kind: nodeClaim},
		// Karpenter before 0.32.
		{Group: "karpenter.sh", Kind: "Provisioner"},
		{Group: "karpenter.sh", Kind: "Machine"},
	}
	loadBalancerKinds = []schema.GroupKind{
		{Group: "networking.k8s.io", Kind: "Ingress"}, {Group: "gateway.networking.k8s.io", Kind: "Gateway"},
	}
	fluxKinds = []schema.GroupKind{
		{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}, {Group: "helm.toolkit.fluxcd.io", Kind: helmRelease},
	}
)

const (
	nodeClaim   = "NodeClaim"
	helmRelease = "HelmRelease"
)

// guard suspends Flux, which would create again what the next steps delete. The releases
// of add-ons are uninstalled later. A protected control plane is left unchanged.
func (r *Reconciler) guard(ctx context.Context, s *scope) error {
	if err := r.unprotect(ctx, s); err != nil {
		return err
	}
	return r.inWorkload(ctx, s, skipGuard, controlplanev1.GuardedCondition, func(c client.Client) ([]string, error) {
		return nil, eachOf(ctx, c, fluxKinds, func(obj workloadObject) error {
			if obj.kind == helmRelease && obj.GetLabels()[addonsv1.AddonLabel] != "" {
				// Flux does not uninstall a release that is suspended.
				return nil
			}
			return obj.suspend(ctx, c)
		})
	})
}

// deleteLoadBalancers deletes the Services of type LoadBalancer, Ingresses and Gateways.
// Their load balancers would remain in the cloud and prevent the deletion of the VPC.
// The controllers that delete them need nodes.
func (r *Reconciler) deleteLoadBalancers(ctx context.Context, s *scope) error {
	return r.inWorkload(ctx, s, skipLoadBalancers, controlplanev1.LoadBalancersGoneCondition, func(c client.Client) ([]string, error) {
		var remaining descriptions
		err := eachLoadBalancer(ctx, c, func(obj workloadObject) error {
			return remaining.delete(ctx, c, obj, s.waitingSince(controlplanev1.LoadBalancersGoneCondition))
		})
		return remaining, err
	})
}

// deleteNodes deletes the node pools and node claims of Karpenter. Its nodes would
// remain in the cloud after the cluster is destroyed. After half of the time, nodes
// whose drain is blocked, for example by a PodDisruptionBudget, are deleted anyway.
func (r *Reconciler) deleteNodes(ctx context.Context, s *scope) error {
	return r.inWorkload(ctx, s, skipNodes, controlplanev1.NodesGoneCondition, func(c client.Client) ([]string, error) {
		since := s.waitingSince(controlplanev1.NodesGoneCondition)
		var remaining descriptions
		err := eachOf(ctx, c, nodeKinds, func(obj workloadObject) error {
			if obj.isAutoMode() {
				return nil
			}
			if s.now.Sub(since) > s.deletionTimeout()/2 {
				if err := obj.endDrain(ctx, c, s.now); err != nil {
					return err
				}
			}
			return remaining.delete(ctx, c, obj, since)
		})
		return remaining, err
	})
}

// workloadObject is an object of the workload cluster. Lists of typed objects do
// not set the kind of their items.
type workloadObject struct {
	client.Object
	kind string
}

// inWorkload runs a deletion step in the workload cluster.
func (r *Reconciler) inWorkload(ctx context.Context, s *scope, name, condition string, run func(client.Client) ([]string, error)) error {
	return s.deletionStep(name, condition, func() ([]string, error) {
		c, err := r.workloadClient(ctx, s)
		if err != nil {
			return nil, s.unreachable(err)
		}
		if c == nil {
			return nil, nil
		}
		remaining, err := run(c)
		if err != nil {
			return nil, s.unreachable(err)
		}
		return remaining, nil
	})
}

// unreachable returns an error of the workload cluster. Nothing is applied during the
// deletion, so a timeout of EKS names the command that admits another address: EKS drops
// the packets of networks that are not admitted.
func (s *scope) unreachable(err error) error {
	var timeout net.Error
	if s.kubeconfigConfig().Source != controlplanev1.KubeconfigSourceEKS || !errors.As(err, &timeout) || !timeout.Timeout() {
		return unreachableError{err}
	}
	name := s.clusterName()
	if s.apply != nil {
		// Without the output the cluster has the name of the Cluster.
		_ = workspace.Output(s.apply, desired.ClusterNameOutput, &name)
	}
	return unreachableError{fmt.Errorf("%w. If its endpoint no longer admits the address of CAPT, run: aws eks update-cluster-config --region %s --name %s --resources-vpc-config endpointPublicAccess=true,publicAccessCidrs=ADDRESS/32", err, s.region(), name)}
}

// delete deletes an object and adds its description. It marks an object that was created
// after the first deletion: only Flux is suspended, and other controllers may continue.
func (d *descriptions) delete(ctx context.Context, c client.Client, obj workloadObject, since time.Time) error {
	text := obj.String()
	if created := obj.GetCreationTimestamp(); created.After(since) {
		text += " (created after the deletion began, by " + obj.creator() + ": stop the controller that creates it)"
	}
	if err := d.add(text); err != nil {
		return err
	}
	return obj.delete(ctx, c)
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
	switch {
	case s.kubeconfigConfig().Source == controlplanev1.KubeconfigSourceEKS:
		// A Secret that a user deleted is created again: without it, everything in the
		// cluster would seem to be gone.
		if err := r.kubeconfig(ctx, s); err != nil {
			return nil, err
		}
	case found == nil:
		// Only the output has a kubeconfig, and a foreground deletion deletes both
		// Secrets first.
		return nil, nil
	default:
		s.kubeconfig = found.Data[secret.KubeconfigDataName]
		if s.kubeconfigConfig().Source == controlplanev1.KubeconfigSourceServiceAccount {
			// The outputs may be deleted already. A token lasts for days.
			if err := r.kubeconfig(ctx, s); err != nil {
				ctrl.LoggerFrom(ctx).Info("The token of the workload cluster could not be renewed", "cause", err.Error())
			}
		}
	}
	return r.Workload.Client(s.kubeconfig)
}

// suspend suspends an object of Flux.
func (o workloadObject) suspend(ctx context.Context, c client.Writer) error {
	if content, ok := o.Object.(*unstructured.Unstructured); ok {
		if suspended, _, _ := unstructured.NestedBool(content.Object, "spec", "suspend"); suspended || !o.GetDeletionTimestamp().IsZero() {
			return nil
		}
	}
	err := c.Patch(ctx, o.Object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("suspending %s: %w", o, err)
	}
	return nil
}

// isAutoMode reports whether a node pool or a node claim belongs to EKS Auto Mode. EKS
// terminates its nodes with the cluster, and creates its own pools again.
func (o workloadObject) isAutoMode() bool {
	content, ok := o.Object.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	const autoMode = "eks.amazonaws.com"
	for _, path := range [][]string{{"spec", "nodeClassRef", "group"}, {"spec", "template", "spec", "nodeClassRef", "group"}} {
		if group, _, _ := unstructured.NestedString(content.Object, path...); group == autoMode {
			return true
		}
	}
	return false
}

// terminationAnnotation is when Karpenter deletes the instance of a node claim that is
// being deleted, even if the node is not drained.
const terminationAnnotation = "karpenter.sh/nodeclaim-termination-timestamp"

// endDrain ends the drain of a node claim that is being deleted. Karpenter may have set a
// later end, from the node pool.
func (o workloadObject) endDrain(ctx context.Context, c client.Writer, now time.Time) error {
	if o.kind != nodeClaim || o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if end, err := time.Parse(time.RFC3339, o.GetAnnotations()[terminationAnnotation]); err == nil && !end.After(now) {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, terminationAnnotation, now.UTC().Format(time.RFC3339))
	if err := client.IgnoreNotFound(c.Patch(ctx, o.Object, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("ending the drain of %s: %w", o, err)
	}
	return nil
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

// creator returns the client that was the first to write the object.
func (o workloadObject) creator() string {
	fields := o.GetManagedFields()
	if len(fields) == 0 {
		return "an unknown client"
	}
	return slices.MinFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return a.Time.Compare(b.Time.Time)
	}).Manager
}

// inCloud returns the names of what the object stands for in the cloud.
func (o workloadObject) inCloud() []string {
	var ids []string
	switch obj := o.Object.(type) {
	case *corev1.Service:
		for _, ingress := range obj.Status.LoadBalancer.Ingress {
			ids = append(ids, cmp.Or(ingress.Hostname, ingress.IP))
		}
	case *corev1.PersistentVolume:
		ids = append(ids, volumeHandle(obj))
	case *unstructured.Unstructured:
		if id, _, _ := unstructured.NestedString(obj.Object, "status", "providerID"); id != "" {
			ids = append(ids, id)
		}
		ingresses, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
		addresses, _, _ := unstructured.NestedSlice(obj.Object, "status", "addresses")
		for _, entry := range slices.Concat(ingresses, addresses) {
			if address, ok := entry.(map[string]any); ok {
				for _, name := range []string{"hostname", "ip", "value"} {
					if text, _ := address[name].(string); text != "" {
						ids = append(ids, text)
					}
				}
			}
		}
	}
	return ids
}

// String returns the name of the object, what it stands for in the cloud, and the finalizers that delay its
// deletion.
func (o workloadObject) String() string {
	text := o.kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	if ids := o.inCloud(); len(ids) > 0 {
		text += " [" + strings.Join(ids, ", ") + "]"
	}
	if finalizers := o.GetFinalizers(); !o.GetDeletionTimestamp().IsZero() && len(finalizers) > 0 {
		text += " (finalizers: " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}
