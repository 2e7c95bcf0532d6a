package cluster

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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
func (w *harness) tracedTemplates(slow bool) (order func() []string) {
	w.t.Helper()
	dir := w.t.TempDir()
	w.templates()
	controlPlane := traced(controlPlaneModule, dir, "cluster")
	if slow {
		controlPlane = strings.Replace(controlPlane, "default = 0", "default = 600", 1)
	}
	change(w, "vpc", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = traced(vpcModule, dir, "vpc")
	})
	change(w, "control-plane", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = controlPlane
	})
	return func() []string { return lines(w, dir+"/order") }
}

func TestDelete_isInOrderWithEveryPropagationPolicy(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			w := newHarness(t)
			order := w.tracedTemplates(false)
			w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
			cluster := w.waitReady("demo")

			w.delete(cluster, client.PropagationPolicy(policy))

			w.waitDeleted(cluster)
			w.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
			w.Eventually(w.leftovers, testTimeout).Should(BeEmpty())
		})
	}
}

func TestDelete_keepsARetainedVPC(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			w := newHarness(t)
			order := w.tracedTemplates(false)
			w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
			cluster := w.waitReady("demo")

			secret := w.apply("demo-vpc").Status.State.SecretName

			// The worst case: the field is set together with the deletion.
			change(w, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Spec.RetainVPCOnDelete = true })
			w.delete(cluster, client.PropagationPolicy(policy))

			w.waitDeleted(cluster)
			w.Consistently(order, 2*time.Second).ShouldNot(ContainElement("destroy vpc"))
			w.Expect(order()).To(ContainElement("destroy cluster"))
			state := get(w, secret, &corev1.Secret{})
			w.Expect(state.OwnerReferences).To(BeEmpty(), "the garbage collector does not delete the state")
		})
	}
}

func TestDelete_ofAWorkspaceInUseDestroysNothing(t *testing.T) {
	w := newHarness(t)
	order := w.tracedTemplates(false)
	w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	cluster := w.waitReady("demo")

	w.delete(w.apply("demo-vpc"))
	c := waitCondition(w, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, infrav1.DestroyedCondition, "False HeldByOwner")
	w.Expect(c.Message).To(ContainSubstring("CAPTCluster demo uses this workspace"))
	w.Consistently(order, 2*time.Second).ShouldNot(ContainElement(HavePrefix("destroy")))

	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
}

func TestDelete_theVPCWaitsForTheControlPlane(t *testing.T) {
	w := newHarness(t)
	order := w.tracedTemplates(false)
	w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	cluster := w.waitReady("demo")

	w.delete(w.infra("demo"))
	c := waitCondition(w, "demo", &infrav1.CAPTCluster{}, infrav1.ControlPlaneGoneCondition, "False WaitingForControlPlaneDeletion")
	w.Expect(c.Message).To(ContainSubstring("CAPTControlPlane demo"))
	w.Expect(text(conditionOf(w.infra("demo"), infrav1.ReadyCondition))).To(HavePrefix("False Deleting: ControlPlaneGone"))

	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
}

func TestDelete_inTheMiddleOfCreationLeavesNothing(t *testing.T) {
	w := newHarness(t)
	order := w.tracedTemplates(true)
	cluster := newCluster("demo")
	w.create(cluster, newInfra("demo"), newControlPlane("demo"))
	w.Eventually(order, testTimeout).Should(ContainElement("create cluster"), "the run of the control plane has started")

	w.delete(cluster)

	w.waitDeleted(cluster)
	w.Expect(order()).To(ContainElements("destroy cluster", "destroy vpc"))
	w.Eventually(w.leftovers, testTimeout).Should(BeEmpty())
}

func TestDelete_beforeAnythingWasCreated(t *testing.T) {
	w := newHarness(t)
	cluster := newCluster("demo")
	w.create(cluster, newInfra("demo"), newControlPlane("demo"))
	waitCondition(w, "demo", &infrav1.CAPTCluster{}, infrav1.VPCReadyCondition, "False WaitingForTemplate")

	w.delete(cluster)

	w.waitDeleted(cluster)
	w.Expect(w.leftovers()).To(BeEmpty())
}

func TestDelete_waitsForLoadBalancersUnlessSkipped(t *testing.T) {
	w := newHarness(t)
	w.templates()
	w.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo", func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{Timeouts: &controlplanev1.ControlPlaneTimeouts{DeletionStep: &metav1.Duration{Duration: time.Second}}}
	}))
	cluster := w.waitReady("demo")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "front", Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	w.create(service)
	w.t.Cleanup(func() {
		service.Finalizers = nil
		_ = w.env.Client.Update(w.t.Context(), service)
	})

	w.delete(cluster)
	waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.LoadBalancersGoneCondition, "False Deleting")
	c := waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.LoadBalancersGoneCondition, "False DeadlineExceeded")
	w.Expect(c.Message).To(And(
		ContainSubstring("Service "+w.namespace+"/front (finalizers: service.kubernetes.io/load-balancer-cleanup)"),
		ContainSubstring("capt.appthrust.io/skip-deletion-checks: load-balancers")))

	change(w, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Annotations = map[string]string{controlplanev1.SkipDeletionChecksAnnotation: "load-balancers"}
	})
	w.waitDeleted(cluster)
	err := w.env.Client.Get(w.ctx, client.ObjectKeyFromObject(service), service)
	w.Expect(apierrors.IsNotFound(err)).To(BeFalse(), "the Service is deleted, but its finalizer remains")
	w.Expect(service.DeletionTimestamp).NotTo(BeNil())
	service.Finalizers = nil
	w.Expect(w.env.Client.Update(w.ctx, service)).To(Succeed())
}
