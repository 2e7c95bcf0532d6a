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
	for _, w := range []*harness{one, two} {
		w.templates()
		w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
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
	w := newHarness(t)
	w.templates()
	w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	w.waitReady("demo")

	w.create(newCluster("demo-vpc"), newInfra("demo-vpc"), newControlPlane("demo-vpc"))
	second := w.waitReady("demo-vpc")

	w.Expect(metav1.IsControlledBy(w.apply("demo-vpc"), w.infra("demo"))).To(BeTrue())
	other := w.controlPlane("demo-vpc").Status.WorkspaceRef.Name
	w.Expect(other).To(HavePrefix("demo-vpc-"))
	w.Expect(metav1.IsControlledBy(w.apply(other), w.controlPlane("demo-vpc"))).To(BeTrue())

	w.delete(second)
	w.waitDeleted(second)
	w.waitReady("demo")
	w.Expect(w.apply("demo-vpc").DeletionTimestamp).To(BeNil())
}

// A Cluster may refer to objects of other names.
func TestNames_ownersAreFoundByReference(t *testing.T) {
	w := newHarness(t)
	w.templates()
	cluster := newCluster("demo")
	cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = "network", "plane"
	w.create(cluster, newInfra("network"), newControlPlane("plane"))

	waitCondition(w, "plane", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	w.Expect(w.apply("demo-vpc").Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
	w.Expect(metav1.IsControlledBy(w.apply("demo-vpc"), w.infra("network"))).To(BeTrue())
	w.Expect(metav1.IsControlledBy(w.apply("demo"), w.controlPlane("plane"))).To(BeTrue())
}
