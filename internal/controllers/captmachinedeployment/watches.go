package captmachinedeployment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/reconcile"
)

const (
	// setIndex finds sets by the UID of their controller.
	setIndex = "capt.machinedeployment.controller"
	// machineIndex finds machines by the UID of their controller.
	machineIndex = "capt.machinedeployment.set"
)

func index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := ownership.Index(ctx, indexer, &infrav1.CAPTMachineSet{}, setIndex); err != nil {
		return err
	}
	return ownership.Index(ctx, indexer, &infrav1.CAPTMachine{}, machineIndex)
}

// requestsForControlPlane returns the deployments of a control plane's Cluster.
func (r *Reconciler) requestsForControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTMachineDeploymentList{}, func(d *infrav1.CAPTMachineDeployment) bool {
		return d.Spec.ClusterName == name
	}, client.InNamespace(obj.GetNamespace()))
}

func (r *Reconciler) watches() *ownership.Watches[*infrav1.CAPTMachineDeployment] {
	return &ownership.Watches[*infrav1.CAPTMachineDeployment]{
		Client: r.Client, Kind: "CAPTMachineDeployment",
		NewList: func() client.ObjectList { return &infrav1.CAPTMachineDeploymentList{} },
		Spec: func(d *infrav1.CAPTMachineDeployment) (*metav1.LabelSelector, string) {
			return &d.Spec.Selector, d.Spec.ClusterName
		},
	}
}
