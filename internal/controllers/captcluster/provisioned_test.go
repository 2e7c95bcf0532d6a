package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestProvisioned_waitsForAControlPlaneOfCAPT(t *testing.T) {
	t.Parallel()
	// The VPC exists, and is being changed.
	infra := func() *infrav1.CAPTCluster {
		return newInfra(func(i *infrav1.CAPTCluster) {
			i.Status.VPCID = "vpc-1"
			i.Status.Conditions = []metav1.Condition{
				{Type: infrav1.FailureDomainsKnownCondition, Status: metav1.ConditionTrue, Reason: "Test"},
				{Type: infrav1.InfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "Test"},
			}
		})
	}
	external := newControlPlane()
	external.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "others"}
	initialized := newCluster("CAPTControlPlane")
	initialized.Status.Initialization.ControlPlaneInitialized = new(true)
	without := newCluster("")
	without.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	for name, test := range map[string]struct {
		cluster      *clusterv1.Cluster
		infra        *infrav1.CAPTCluster
		controlPlane *controlplanev1.CAPTControlPlane
		want         *bool
	}{
		"being created":             {newCluster("CAPTControlPlane"), infra(), newControlPlane(), nil},
		"initialized":               {initialized, infra(), newControlPlane(), new(true)},
		"does not exist":            {newCluster("CAPTControlPlane"), infra(), nil, new(true)},
		"is managed by others":      {newCluster("CAPTControlPlane"), infra(), external, new(true)},
		"it is never reset":         {newCluster("CAPTControlPlane"), newInfra(func(i *infrav1.CAPTCluster) { i.Status.Initialization.Provisioned = new(true) }), nil, new(true)},
		"no VPC":                    {initialized, newInfra(), nil, nil},
		"no control plane":          {without, infra(), nil, new(true)},
		"another kind waits for it": {newCluster("KubeadmControlPlane"), infra(), nil, new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var objects []client.Object
			if test.controlPlane != nil {
				objects = append(objects, test.controlPlane)
			}
			r := reconciler(t, objects...)
			s := &scope{infra: test.infra, cluster: test.cluster}
			g.Expect(r.provisioned(t.Context(), s)).To(Succeed())
			g.Expect(s.infra.Status.Initialization.Provisioned).To(Equal(test.want))
		})
	}
}
