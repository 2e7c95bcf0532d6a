package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Machines of CAPT need a connection also with the control plane of another provider.
func TestHasWorkload(t *testing.T) {
	const kubeadm = "controlplane.cluster.x-k8s.io"
	for name, c := range map[string]struct {
		controlPlane, infra clusterv1.ContractVersionedObjectReference
		initialized         *bool
		want                bool
	}{
		"CAPT":               {clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane"}, clusterv1.ContractVersionedObjectReference{}, new(true), true},
		"kubeadm on CAPT":    {clusterv1.ContractVersionedObjectReference{APIGroup: kubeadm, Kind: "KubeadmControlPlane"}, clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster"}, new(true), true},
		"not initialized":    {clusterv1.ContractVersionedObjectReference{APIGroup: kubeadm, Kind: "KubeadmControlPlane"}, clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster"}, nil, false},
		"of other providers": {clusterv1.ContractVersionedObjectReference{APIGroup: kubeadm, Kind: "KubeadmControlPlane"}, clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster"}, new(true), false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{ControlPlaneRef: c.controlPlane, InfrastructureRef: c.infra}}
			cluster.Status.Initialization.ControlPlaneInitialized = c.initialized
			NewWithT(t).Expect(hasWorkload(cluster)).To(Equal(c.want))
		})
	}
}
