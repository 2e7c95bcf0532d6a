package cluster

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// traced returns a module that records in a file when it is created and destroyed.
func traced(module, dir, name string) string {
	return strings.Replace(module, "resource \"terraform_data\" \"", `resource "terraform_data" "trace" {
  input = "`+dir+`/order"
  provisioner "local-exec" {
    command = "echo create `+name+` >> ${self.input}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroy `+name+` >> ${self.input}"
  }
}
resource "terraform_data" "`, 1)
}

// tracedTemplates creates templates of traced modules. order returns their records.
func (h *harness) tracedTemplates(slow bool) (order func() []string) {
	h.t.Helper()
	dir := h.t.TempDir()
	h.templates()
	controlPlane := traced(controlPlaneModule, dir, "cluster")
	if slow {
		controlPlane = strings.Replace(controlPlane, "default = 0", "default = 600", 1)
	}
	change(h, "vpc", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = traced(vpcModule, dir, "vpc")
	})
	change(h, "control-plane", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = controlPlane
	})
	return func() []string { return lines(h, dir+"/order") }
}

func TestDelete_isInOrderWithEveryPropagationPolicy(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			h := newHarness(t)
			order := h.tracedTemplates(false)
			h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
			cluster := h.waitReady("demo")

			h.delete(cluster, client.PropagationPolicy(policy))

			h.waitDeleted(cluster)
			h.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
			h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
		})
	}
}

func TestDelete_keepsARetainedVPC(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			h := newHarness(t)
			order := h.tracedTemplates(false)
			h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
			cluster := h.waitReady("demo")

			vpc := h.apply("demo-vpc")
			secret := vpc.Status.State.SecretName

			// The worst case: the field is set together with the deletion.
			change(h, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Spec.RetainVPCOnDelete = true })
			h.delete(cluster, client.PropagationPolicy(policy))

			h.waitDeleted(cluster)
			// Nothing can destroy the VPC after its workspace is gone.
			h.waitDeleted(vpc)
			h.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster"}))
			state := get(h, secret, &corev1.Secret{})
			h.Expect(state.OwnerReferences).To(BeEmpty(), "the garbage collector does not delete the state")
		})
	}
}

func TestDelete_ofAWorkspaceInUseDestroysNothing(t *testing.T) {
	h := newHarness(t)
	order := h.tracedTemplates(false)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	cluster := h.waitReady("demo")

	h.delete(h.apply("demo-vpc"))
	c := waitCondition(h, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, infrav1.DestroyedCondition, "False HeldByOwner")
	h.Expect(c.Message).To(ContainSubstring("CAPTCluster demo uses this workspace"))
	change(h, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
	})
	waitCondition(h, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, infrav1.DestroyedCondition, "False HeldByOwner")
	h.Expect(order()).NotTo(ContainElement(HavePrefix("destroy")))

	h.destroy(cluster)
	h.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
}

func TestDelete_theVPCWaitsForTheControlPlane(t *testing.T) {
	h := newHarness(t)
	order := h.tracedTemplates(false)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	cluster := h.waitReady("demo")

	h.delete(h.infra("demo"))
	c := waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.ControlPlaneGoneCondition, "False WaitingForControlPlaneDeletion")
	h.Expect(c.Message).To(ContainSubstring("CAPTControlPlane demo"))
	h.Expect(objecttest.Text(objecttest.Condition(h.infra("demo"), infrav1.ReadyCondition))).To(HavePrefix("False Deleting: ControlPlaneGone"))

	h.destroy(cluster)
	h.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
}

func TestDelete_inTheMiddleOfCreationLeavesNothing(t *testing.T) {
	h := newHarness(t)
	order := h.tracedTemplates(true)
	cluster := newCluster("demo")
	h.create(cluster, newInfra("demo"), newControlPlane("demo"))
	h.Eventually(order, testTimeout).Should(ContainElement("create cluster"), "the run of the control plane has started")

	h.destroy(cluster)
	h.Expect(order()).To(ContainElements("destroy cluster", "destroy vpc"))
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
}

func TestDelete_beforeAnythingWasCreated(t *testing.T) {
	h := newHarness(t)
	cluster := newCluster("demo")
	h.create(cluster, newInfra("demo"), newControlPlane("demo"))
	waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "False WaitingForTemplate")

	h.destroy(cluster)
	h.Expect(h.leftovers()).To(BeEmpty())
}

func TestDelete_waitsForLoadBalancersUnlessSkipped(t *testing.T) {
	h := newHarness(t)
	// The deletion of every cluster waits for the Services of its workload cluster, so
	// other tests must not share it.
	workload := testenv.New(t, testenv.WithCRDs(""))
	h.templatesOf(workload)
	timeout := func(d time.Duration) *controlplanev1.ControlPlaneConfig {
		return &controlplanev1.ControlPlaneConfig{Timeouts: &controlplanev1.ControlPlaneTimeouts{DeletionStep: &metav1.Duration{Duration: d}}}
	}
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo", func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.ControlPlaneConfig = timeout(time.Hour)
	}))
	cluster := h.waitReady("demo")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "front", Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	h.Expect(workload.Client.Create(h.ctx, service)).To(Succeed())

	h.delete(cluster)
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.LoadBalancersGoneCondition, "False Deleting")
	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.ControlPlaneConfig = timeout(time.Second)
	})
	c := waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.LoadBalancersGoneCondition, "False DeadlineExceeded")
	h.Expect(c.Message).To(And(
		ContainSubstring("Service default/front (finalizers: service.kubernetes.io/load-balancer-cleanup)"),
		ContainSubstring("capt.appthrust.io/skip-deletion-checks: load-balancers")))

	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Annotations = map[string]string{controlplanev1.SkipDeletionChecksAnnotation: "load-balancers"}
	})
	h.waitDeleted(cluster)
	h.Expect(workload.Client.Get(h.ctx, client.ObjectKeyFromObject(service), service)).To(Succeed(), "the Service is deleted, but its finalizer remains")
	h.Expect(service.DeletionTimestamp).NotTo(BeNil())
}
