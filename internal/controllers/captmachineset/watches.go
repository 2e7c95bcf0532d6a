package captmachineset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/ownership"
)

// controllerIndex finds machines by the UID of their controller.
const controllerIndex = "capt.machineset.controller"

func (r *Reconciler) watches() *ownership.Watches[*infrav1.CAPTMachineSet] {
	return &ownership.Watches[*infrav1.CAPTMachineSet]{
		Client: r.Client, Kind: "CAPTMachineSet",
		NewList: func() client.ObjectList { return &infrav1.CAPTMachineSetList{} },
		Spec: func(set *infrav1.CAPTMachineSet) (*metav1.LabelSelector, string) {
			return &set.Spec.Selector, set.Spec.ClusterName
		},
	}
}
