package captcontrolplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// adoptDeployments makes the control plane the owner of the CAPTMachineDeployments
// of its cluster, so that clusterctl and garbage collection see one tree.
func (r *Reconciler) adoptDeployments(ctx context.Context, s *scope) error {
	var list infrav1.CAPTMachineDeploymentList
	if err := r.Client.List(ctx, &list, s.members()...); err != nil {
		return fmt.Errorf("listing machine deployments: %w", err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		if metav1.GetControllerOf(deployment) != nil || !deployment.DeletionTimestamp.IsZero() {
			continue
		}
		owned := deployment.DeepCopy()
		if err := controllerutil.SetControllerReference(s.controlPlane, owned, r.Client.Scheme()); err != nil {
			return fmt.Errorf("owning CAPTMachineDeployment %s: %w", owned.Name, err)
		}
		patch := client.MergeFromWithOptions(deployment, client.MergeFromWithOptimisticLock{})
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, owned, patch)); err != nil {
			return fmt.Errorf("owning CAPTMachineDeployment %s: %w", owned.Name, err)
		}
	}
	return nil
}

// members selects the objects of the cluster.
func (s *scope) members() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(s.controlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.clusterName()},
	}
}

// deleteMachines deletes the machines of the cluster and waits for their deletion.
func (r *Reconciler) deleteMachines(ctx context.Context, s *scope) error {
	return s.deletionStep(skipMachines, controlplanev1.MachinesGoneCondition, func() ([]string, error) {
		var remaining []string
		for _, list := range []client.ObjectList{
			&infrav1.CAPTMachineDeploymentList{}, &infrav1.CAPTMachineSetList{}, &infrav1.CAPTMachineList{}, &infrav1.CAPTMachinePoolList{},
		} {
			if err := r.Client.List(ctx, list, s.members()...); err != nil {
				return nil, fmt.Errorf("listing machines: %w", err)
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				name, err := r.deleteMachine(ctx, s, item.(client.Object))
				remaining = append(remaining, name)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return remaining, nil
	})
}

// deleteMachine deletes one object of the cluster and returns its name.
func (r *Reconciler) deleteMachine(ctx context.Context, s *scope, obj client.Object) (string, error) {
	gvk, err := apiutil.GVKForObject(obj, r.Client.Scheme())
	if err != nil {
		return "", fmt.Errorf("identifying %T: %w", obj, err)
	}
	name := gvk.Kind + " " + obj.GetName()
	if !s.mustDelete(obj) {
		return name, nil
	}
	// The next cluster of the name may have one of this name, if this manager was suspended.
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})); err != nil {
		return "", fmt.Errorf("deleting %s: %w", name, err)
	}
	return name, nil
}

// mustDelete reports whether the control plane has to delete an object. Objects
// with another controlling owner are deleted with it.
func (s *scope) mustDelete(obj client.Object) bool {
	owner := metav1.GetControllerOf(obj)
	return obj.GetDeletionTimestamp().IsZero() && (owner == nil || owner.UID == s.controlPlane.UID)
}
