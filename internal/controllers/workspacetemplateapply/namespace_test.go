package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// deleteNamespace deletes the namespace and what is in it, as Kubernetes does.
func (c *testController) deleteNamespace() {
	c.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"kubernetes"}}}
	c.Expect(c.server.Create(c.t.Context(), namespace)).To(Succeed())
	c.Expect(c.server.Delete(c.t.Context(), namespace)).To(Succeed())
	for _, kind := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceProviderConfig{}} {
		c.Expect(c.server.DeleteAllOf(c.t.Context(), kind, client.InNamespace("n"))).To(Succeed())
	}
}

// The finalizer of the state keeps it, and a user who has read why can let go of it.
func TestReconcile_keepsTheStateInANamespaceThatIsDeleted(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), savedIn(NewWithT(t), "l", 1), rescuedSecret("kept"))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.deleteNamespace()
	c.started = nil
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.started).To(BeEmpty(), "the API server would refuse it")
	message := c.expect(infrav1.DestroyedCondition, "False NamespaceTerminating")
	c.Expect(message).To(And(ContainSubstring("Secret tfstate-default-hello-ws"), ContainSubstring("kubectl patch wsta hello --namespace n")))
	c.Expect(c.secrets()).To(ConsistOf("tfstate-default-hello-ws", "capt-kept-0"))

	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.secrets()).To(BeEmpty(), "nothing keeps the namespace")
}

func TestReconcile_endsInANamespaceThatIsDeletedIfNothingIsLeft(t *testing.T) {
	for name, change := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"no run":   func(*infrav1.WorkspaceTemplateApply) {},
		"retained": func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true },
		"an empty state elsewhere": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.State = &infrav1.StateStatus{Backend: "s3", Lineage: "l", Confirmation: infrav1.StateConfirmed}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, newApply(func(a *infrav1.WorkspaceTemplateApply) {
				a.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
				change(a)
			}))
			c.deleteNamespace()
			for range 3 {
				c.reconcile()
			}
			c.Expect(c.started).To(BeEmpty())
			c.Expect(c.deleted()).To(BeTrue())
		})
	}
}

func TestReconcile_finishesWhatAUserDeletes(t *testing.T) {
	snapshot := rescuedSecret("snapshot")
	snapshot.Labels[infrav1.ComponentLabel] = record.ComponentSnapshot
	state := savedIn(NewWithT(t), "l", 1)
	c := newTestController(t, append(values(), newApply(), state, snapshot, rescuedSecret("rescue"))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	for _, secret := range []*corev1.Secret{state, snapshot, rescuedSecret("rescue")} {
		c.Expect(c.server.Delete(t.Context(), secret)).To(Succeed())
		deleted := &corev1.Secret{}
		c.Expect(c.server.Get(t.Context(), client.ObjectKeyFromObject(secret), deleted)).To(Succeed())
		c.Expect(changesRescued(deleted)).To(Equal(secret != state))
		c.Expect(workspaceOfSecret(t.Context(), deleted)).To(ConsistOf(HaveField("NamespacedName", key("hello"))))
	}
	c.reconcile()
	c.Expect(c.secrets()).To(And(ContainElement(state.Name), Not(ContainElement(HavePrefix("capt-snapshot"))), Not(ContainElement(HavePrefix("capt-rescue")))))
	c.Expect(c.server.Get(t.Context(), client.ObjectKeyFromObject(state), state)).To(Succeed())
	c.Expect(state.Finalizers).To(ConsistOf(record.StateFinalizer), "the resources exist")
}
