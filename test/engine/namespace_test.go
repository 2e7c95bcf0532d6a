package engine

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Without the policy for namespaces, Kubernetes deletes all that nothing keeps.
func TestNamespace_isDestroyedFromAnother(t *testing.T) {
	w := newHarness(t)
	w.hello("several", several, variables(map[string]string{"dir": w.dir}))
	w.waitPhase(w.requestRun("hello"), infrav1.OperationSucceeded)
	kept := w.secret("tfstate-default-hello-ws")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	w.Expect(env.Client.Delete(w.ctx, namespace)).To(MatchError(ContainSubstring("first run kubectl delete --namespace " + w.namespace + " wsta hello")))
	w.withoutNamespacePolicy()
	w.Eventually(func() error { return env.Client.Delete(w.ctx, namespace) }, testTimeout).Should(Succeed())

	waiting := w.waitReason("hello", infrav1.DestroyedCondition, infrav1.NamespaceTerminatingReason)
	w.Expect(waiting.Message).To(ContainSubstring("Secret " + kept.Name))
	w.Eventually(func() []string { return w.secrets() }, testTimeout).Should(ConsistOf(kept.Name), "Kubernetes has deleted the others")
	w.Expect(w.secret(kept.Name).Data).To(Equal(kept.Data))
	w.Expect(w.directories()).To(Equal(4))

	// As in docs/troubleshooting.md.
	other := prepare(t, sharedFilter, shared.manager)
	other.dir = w.dir
	other.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: kept.Name, Labels: kept.Labels, Annotations: kept.Annotations}, Data: kept.Data})
	other.template("several", several)
	other.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	a := other.waitReady("hello")
	other.Expect(a.Status.State.Resources).To(BeEquivalentTo(4))
	other.Expect(other.secret(kept.Name).Finalizers).NotTo(BeEmpty())
	other.destroy("hello")
	other.Expect(other.directories()).To(BeZero())

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	w.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(w.ctx, client.ObjectKeyFromObject(namespace), namespace))
	}, testTimeout).Should(BeTrue(), "nothing keeps the namespace")
}

// withoutNamespacePolicy switches the policy off until the end of the test.
func (w *harness) withoutNamespacePolicy() {
	w.t.Helper()
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Name: "capt-namespaces"}, binding)).To(Succeed())
	w.Expect(env.Client.Delete(w.ctx, binding)).To(Succeed())
	w.t.Cleanup(func() {
		binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels}
		w.Expect(env.Client.Create(context.WithoutCancel(w.t.Context()), binding)).To(Succeed())
	})
}
