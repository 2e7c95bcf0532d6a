package record

import (
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// Ten workers decode what ten workspaces have at the same time.
func TestResult_decodesOneLargeResultAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		outside := decodings
		decodings = make(chan struct{}, 1)
		defer func() { decodings = outside }()
		secretOf := func(result *terraform.Result) *corev1.Secret {
			secret := &corev1.Secret{}
			g.Expect(SetResult(secret, result)).To(Succeed())
			return secret
		}
		small := secretOf(&terraform.Result{Outcome: terraform.OutcomeFailed})
		g.Expect(IsLarge(small)).To(BeFalse())
		for _, large := range []*corev1.Secret{
			secretOf(&terraform.Result{InvalidInputs: strings.Repeat("x", 100<<10)}),
			secretOf(&terraform.Result{Blocked: make([]string, 3_000)}),
		} {
			g.Expect(IsLarge(large)).To(BeTrue())
			decodings <- struct{}{} // Another one is decoded.
			decoded := false
			go func() {
				_, err := Result(large)
				decoded = err == nil
			}()
			synctest.Wait()
			g.Expect(decoded).To(BeFalse())
			_, err := Result(small)
			g.Expect(err).NotTo(HaveOccurred(), "a small one does not wait")
			<-decodings
			synctest.Wait()
			g.Expect(decoded).To(BeTrue())
			g.Expect(decodings).To(BeEmpty())
		}
	})
}
