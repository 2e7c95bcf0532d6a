package captcontrolplane

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// adopt makes the control plane the owner of the machine deployments of its
// cluster, so that the tree of the cluster is one.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
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

func (s *scope) members() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(s.controlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.clusterName()},
	}
}

// machinesGone takes the machines of the cluster away and waits for them. Those
// that another object controls go with it.
func (r *Reconciler) machinesGone(ctx context.Context, s *scope) error {
	return r.step(s, skipMachines, controlplanev1.MachinesGoneCondition, func() ([]string, error) {
		var left []string
		for _, list := range []client.ObjectList{
			&infrav1.CAPTMachineDeploymentList{}, &infrav1.CAPTMachineSetList{}, &infrav1.CAPTMachineList{}, &infrav1.CAPTMachinePoolList{},
		} {
			if err := r.Client.List(ctx, list, s.members()...); err != nil {
				return nil, fmt.Errorf("listing machines: %w", err)
			}
			objects, err := items(list)
			if err != nil {
				return nil, err
			}
			for _, obj := range objects {
				left = append(left, kindOf(obj)+" "+obj.GetName())
				owner := metav1.GetControllerOf(obj)
				if !obj.GetDeletionTimestamp().IsZero() || owner != nil && owner.UID != s.controlPlane.UID {
					continue
				}
				if err := client.IgnoreNotFound(r.Client.Delete(ctx, obj)); err != nil {
					return nil, fmt.Errorf("deleting %s %s: %w", kindOf(obj), obj.GetName(), err)
				}
			}
		}
		return left, nil
	})
}

func items(list client.ObjectList) ([]client.Object, error) {
	var objects []client.Object
	switch list := list.(type) {
	case *infrav1.CAPTMachineDeploymentList:
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	case *infrav1.CAPTMachineSetList:
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	case *infrav1.CAPTMachineList:
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	case *infrav1.CAPTMachinePoolList:
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	default:
		return nil, fmt.Errorf("%T is no list of machines", list)
	}
	return objects, nil
}

func kindOf(obj client.Object) string {
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndex(name, ".")+1:]
}
