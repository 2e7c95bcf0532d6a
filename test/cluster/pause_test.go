package cluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestPause_stopsAllWorkUntilItEnds(t *testing.T) {
	w := newHarness(t)
	w.templates()
	cluster := newCluster("demo")
	cluster.Spec.Paused = new(true)
	w.create(cluster, newInfra("demo"), newControlPlane("demo"))

	// Cluster API sets no owner while the Cluster is paused; CAPT waits for it.
	w.Consistently(w.leftovers, 2*time.Second).Should(BeEmpty())
	change(w, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	w.waitReady("demo")

	change(w, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	waitCondition(w, "demo", &infrav1.CAPTCluster{}, infrav1.PausedCondition, "True Paused")
	waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.PausedCondition, "True Paused")
	waitCondition(w, "demo", &infrav1.WorkspaceTemplateApply{}, infrav1.PausedCondition, "True Paused")
	runs := w.apply("demo").Status.Runs
	change(w, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]string{"team": "a"}
	})
	w.Consistently(func(g Gomega) {
		g.Expect(w.apply("demo").Status.Runs).To(Equal(runs))
		g.Expect(w.apply("demo").Spec.Variables).NotTo(HaveKey("tags"))
	}, 2*time.Second).Should(Succeed())

	change(w, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	w.Eventually(func(g Gomega) {
		g.Expect(w.apply("demo").Spec.Variables).To(HaveKey("tags"))
		g.Expect(w.apply("demo").Status.Runs).To(Equal(runs + 1))
	}, testTimeout).Should(Succeed())
	w.waitReady("demo")
}

func TestManagedBy_isIgnored(t *testing.T) {
	w := newHarness(t)
	w.templates()
	infra := newInfra("demo")
	infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "another-system"}
	w.create(newCluster("demo"), infra, newControlPlane("demo"))
	w.Eventually(func(g Gomega) {
		g.Expect(w.infra("demo").OwnerReferences).NotTo(BeEmpty(), "Cluster API has observed it")
	}, testTimeout).Should(Succeed())

	w.Consistently(func(g Gomega) {
		infra := w.infra("demo")
		g.Expect(infra.Finalizers).To(BeEmpty())
		g.Expect(infra.Status).To(Equal(infrav1.CAPTClusterStatus{}))
	}, 2*time.Second).Should(Succeed())

	// The other system provides the infrastructure; the control plane continues.
	infra = w.infra("demo")
	infra.Status.VPCID, infra.Status.SubnetIDs = "vpc-0123456789abcdef0", []string{"subnet-1", "subnet-2"}
	infra.Status.Initialization.Provisioned = new(true)
	w.Expect(w.env.Client.Status().Update(w.ctx, infra)).To(Succeed())
	waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	w.Expect(w.apply("demo").Spec.Variables["vpc_id"].String()).To(Equal("vpc-0123456789abcdef0"))
}
