package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestNames_sameNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	one, two := newHarnessOn(t, env), newHarnessOn(t, env)
	for _, h := range []*harness{one, two} {
		h.templates()
		h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	}
	first, second := one.waitReady("demo"), two.waitReady("demo")
	one.Expect(one.infra("demo").Status.VPCID).NotTo(Equal(two.infra("demo").Status.VPCID))

	one.delete(first)
	one.waitDeleted(first)

	two.Expect(two.infra("demo").Status.VPCID).NotTo(BeEmpty())
	two.waitReady("demo")
	two.delete(second)
	two.waitDeleted(second)
}

// The VPC of one cluster and the control plane of another may need workspaces of the
// same name: the owner is found by reference, not by name.
func TestNames_aClusterNamedLikeTheVPCOfAnother(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.waitReady("demo")

	h.create(newCluster("demo-vpc"), newInfra("demo-vpc"), newControlPlane("demo-vpc"))
	second := h.waitReady("demo-vpc")

	h.Expect(metav1.IsControlledBy(h.apply("demo-vpc"), h.infra("demo"))).To(BeTrue())
	other := h.controlPlane("demo-vpc").Status.WorkspaceRef.Name
	h.Expect(other).To(HavePrefix("demo-vpc-"))
	h.Expect(metav1.IsControlledBy(h.apply(other), h.controlPlane("demo-vpc"))).To(BeTrue())

	h.delete(second)
	h.waitDeleted(second)
	h.waitReady("demo")
	h.Expect(h.apply("demo-vpc").DeletionTimestamp).To(BeNil())
}

// A Cluster may refer to objects of other names.
func TestNames_ownersAreFoundByReference(t *testing.T) {
	h := newHarness(t)
	h.templates()
	cluster := newCluster("demo")
	cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = "network", "plane"
	h.create(cluster, newInfra("network"), newControlPlane("plane"))

	waitCondition(h, "plane", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	h.Expect(h.apply("demo-vpc").Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
	h.Expect(metav1.IsControlledBy(h.apply("demo-vpc"), h.infra("network"))).To(BeTrue())
	h.Expect(metav1.IsControlledBy(h.apply("demo"), h.controlPlane("plane"))).To(BeTrue())
}
