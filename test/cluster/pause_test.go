package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestPause_stopsAllWorkUntilItEnds(t *testing.T) {
	h := newHarness(t)
	h.templates()
	cluster := newCluster("demo")
	cluster.Spec.Paused = new(true)
	h.create(cluster, newInfra("demo"), newControlPlane("demo"))

	// Cluster API sets no owner while the Cluster is paused; CAPT waits for it.
	h.settle()
	h.Expect(h.leftovers()).To(BeEmpty())
	change(h, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	h.waitReady("demo")

	change(h, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.PausedCondition, "True Paused")
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.PausedCondition, "True Paused")
	waitCondition(h, "demo", &infrav1.WorkspaceTemplateApply{}, infrav1.PausedCondition, "True Paused")
	runs := h.apply("demo").Status.Runs
	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]string{"team": "a"}
	})
	// The condition is that of the new generation.
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.PausedCondition, "True Paused")
	h.Expect(h.apply("demo").Status.Runs).To(Equal(runs))
	h.Expect(h.apply("demo").Spec.Variables).NotTo(HaveKey("tags"))

	change(h, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	h.Eventually(func(g Gomega) {
		g.Expect(h.apply("demo").Spec.Variables).To(HaveKey("tags"))
		g.Expect(h.apply("demo").Status.Runs).To(Equal(runs + 1))
	}, testTimeout).Should(Succeed())
	h.waitReady("demo")
}

func TestManagedBy_isIgnored(t *testing.T) {
	h := newHarness(t)
	h.templates()
	infra := newInfra("demo")
	infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "another-system"}
	h.create(newCluster("demo"), infra, newControlPlane("demo"))
	h.Eventually(func(g Gomega) {
		g.Expect(h.infra("demo").OwnerReferences).NotTo(BeEmpty(), "Cluster API has observed it")
	}, testTimeout).Should(Succeed())

	h.settle()
	infra = h.infra("demo")
	h.Expect(infra.Finalizers).To(BeEmpty())
	h.Expect(infra.Status).To(Equal(infrav1.CAPTClusterStatus{ObservedGeneration: -1}), "the default of a new object")

	// The other system provides the infrastructure; the control plane continues.
	infra.Status.VPCID, infra.Status.SubnetIDs = "vpc-0123456789abcdef0", []string{"subnet-1", "subnet-2"}
	infra.Status.Initialization.Provisioned = new(true)
	h.Expect(h.env.Client.Status().Update(h.ctx, infra)).To(Succeed())
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	h.Expect(h.apply("demo").Spec.Variables["vpc_id"].String()).To(Equal("vpc-0123456789abcdef0"))
}
