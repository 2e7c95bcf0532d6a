package captmachinedeployment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/ownership"
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

func (r *Reconciler) watches() *ownership.Watches[*infrav1.CAPTMachineDeployment] {
	return &ownership.Watches[*infrav1.CAPTMachineDeployment]{
		Client: r.Client, Kind: "CAPTMachineDeployment",
		NewList: func() client.ObjectList { return &infrav1.CAPTMachineDeploymentList{} },
		Spec: func(d *infrav1.CAPTMachineDeployment) (*metav1.LabelSelector, string) {
			return &d.Spec.Selector, d.Spec.ClusterName
		},
	}
}
