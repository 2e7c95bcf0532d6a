package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSealKey_hasANamespaceAndAName(t *testing.T) {
	g := NewWithT(t)
	for _, value := range []string{"name", "/name", "namespace/", "a/b/c"} {
		_, err := (&EngineOptions{SealKey: value}).sealKey()
		g.Expect(err).To(MatchError(ContainSubstring("set it to NAMESPACE/NAME")), value)
	}
	g.Expect((&EngineOptions{SealKey: "a/b"}).sealKey()).To(Equal(client.ObjectKey{Namespace: "a", Name: "b"}))
	g.Expect((&EngineOptions{}).sealKey()).To(Equal(client.ObjectKey{Namespace: "kube-system", Name: "capt-seal-key"}), "outside a cluster")
}

func TestReadSealKey(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	mgr, _ := caches(t)
	options := &EngineOptions{SealKey: namespace + "/key"}

	first, err := readSealKey(t.Context(), mgr, options)
	g.Expect(err).NotTo(HaveOccurred())
	second, err := readSealKey(t.Context(), mgr, options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second.Verify("run", []byte("x"), first.Sign("run", []byte("x")))).To(BeTrue(), "all managers use the same key")
	g.Expect(first.Created().IsZero()).To(BeFalse())

	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken"}, Data: map[string][]byte{"key": []byte("short")}}
	g.Expect(env.Client.Create(t.Context(), broken)).To(Succeed())
	g.Expect(readSealKey(t.Context(), mgr, &EngineOptions{SealKey: namespace + "/broken"})).Error().To(MatchError(ContainSubstring("Delete the Secret to create a new key")))
}
