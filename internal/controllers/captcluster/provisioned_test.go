package captcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestProvisioned_waitsForAControlPlaneOfCAPT(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	condition := func(name string, status metav1.ConditionStatus, since time.Time) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(since)}
	}
	// The VPC exists, and is being changed.
	infra := func(known time.Duration, changes ...func(*infrav1.CAPTCluster)) *infrav1.CAPTCluster {
		return newInfra(append(changes, func(i *infrav1.CAPTCluster) {
			i.Status.VPCID = "vpc-1"
			i.Status.Conditions = []metav1.Condition{
				condition(infrav1.FailureDomainsKnownCondition, metav1.ConditionTrue, now.Add(-known)),
				condition(infrav1.VPCReadyCondition, metav1.ConditionFalse, now),
			}
		})...)
	}
	controlPlane := func(ready metav1.ConditionStatus) *controlplanev1.CAPTControlPlane {
		c := newControlPlane()
		c.Status.Conditions = []metav1.Condition{condition(controlplanev1.InfrastructureReadyCondition, ready, now)}
		return c
	}
	external := controlPlane(metav1.ConditionTrue)
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
		requeue      time.Duration
	}{
		"being created":             {newCluster("CAPTControlPlane"), infra(time.Hour), controlPlane(metav1.ConditionTrue), nil, 0},
		"initialized":               {initialized, infra(time.Hour), controlPlane(metav1.ConditionTrue), new(true), 0},
		"has not noticed the VPC":   {newCluster("CAPTControlPlane"), infra(20 * time.Second), controlPlane(metav1.ConditionFalse), nil, 40 * time.Second},
		"waits for the report":      {newCluster("CAPTControlPlane"), infra(time.Minute), controlPlane(metav1.ConditionFalse), new(true), 0},
		"does not exist":            {newCluster("CAPTControlPlane"), infra(0), nil, new(true), 0},
		"is managed by others":      {newCluster("CAPTControlPlane"), infra(0), external, new(true), 0},
		"it is never reset":         {newCluster("CAPTControlPlane"), newInfra(func(i *infrav1.CAPTCluster) { i.Status.Initialization.Provisioned = new(true) }), nil, new(true), 0},
		"no VPC":                    {initialized, newInfra(), nil, nil, 0},
		"no control plane":          {without, infra(0), nil, new(true), 0},
		"another kind waits for it": {newCluster("KubeadmControlPlane"), infra(0), nil, new(true), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var objects []client.Object
			if test.controlPlane != nil {
				objects = append(objects, test.controlPlane)
			}
			r := reconciler(t, objects...)
			r.Now = func() time.Time { return now }
			s := &scope{infra: test.infra, cluster: test.cluster}
			g.Expect(r.provisioned(t.Context(), s)).To(Succeed())
			g.Expect(s.infra.Status.Initialization.Provisioned).To(Equal(test.want))
			g.Expect(noticedIn(s)).To(Equal(test.requeue))
		})
	}
}
