package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The manager has no connections to clusters in which it does nothing.
func TestNeedsConnection(t *testing.T) {
	capt := clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "cp"}
	kubeadm := clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"}
	infra := clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "demo"}
	for name, test := range map[string]struct {
		ref, infra  clusterv1.ContractVersionedObjectReference
		initialized bool
		label       string
		want        bool
	}{
		"of CAPT":                              {ref: capt, initialized: true, want: true},
		"of CAPT, not initialized":             {ref: capt, label: "demo"},
		"of another provider":                  {ref: kubeadm, initialized: true},
		"of another provider, with add-ons":    {ref: kubeadm, initialized: true, label: "demo", want: true},
		"of another provider, not initialized": {ref: kubeadm, label: "demo"},
		"of another provider, with machines":   {ref: kubeadm, infra: infra, initialized: true, want: true},
		"machines, not initialized":            {ref: kubeadm, infra: infra},
		"no control plane":                     {},
		"no control plane, with add-ons":       {label: "demo", want: true},
		"label of another cluster":             {label: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Name, cluster.Spec.ControlPlaneRef, cluster.Spec.InfrastructureRef = "demo", test.ref, test.infra
			if test.initialized {
				cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			}
			if test.label != "" {
				cluster.Labels = map[string]string{addonsv1.ClusterLabel: test.label}
			}
			NewWithT(t).Expect(needsConnection(cluster)).To(Equal(test.want))
		})
	}
}
