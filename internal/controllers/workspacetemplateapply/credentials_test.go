package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// A tool that prunes can delete the Secrets of a workspace together with it.
func TestReconcile_destroysOnceItsSecretsExistAgain(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("values")})).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DestroyedCondition, "False WaitingForSecret")).To(ContainSubstring("Secret values does not exist"))
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))

	c.Expect(c.server.Create(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("values"), Data: map[string][]byte{"k": []byte("v")}})).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
}
