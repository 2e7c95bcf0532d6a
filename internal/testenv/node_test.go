package testenv_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

func TestNode_runsPods(t *testing.T) {
	testenv.NeedsNode(t)
	g := NewWithT(t)
	ctx := context.Background()
	env := testenv.New(t, testenv.WithNode())
	program := filepath.Join(t.TempDir(), "program")
	g.Expect(env.Node().Build(program, "./internal/testenv/nodepause")).To(Succeed())
	g.Expect(env.Node().LoadImage("capt.test/program:1", "/program", map[string]string{"/program": program})).To(Succeed())

	ns := env.Namespace(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "program", Image: "capt.test/program:1"}}},
	}
	g.Eventually(func() error { return env.Client.Create(ctx, pod) }).
		Should(Succeed(), "the service account of the namespace is created")
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning), "%+v", pod.Status)
	}).Should(Succeed())
	g.Expect(pod.Status.PodIP).To(HavePrefix("10.214."))
}
