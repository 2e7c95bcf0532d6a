package aws

import (
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// ownImages are images that the emulator has and that are not EKS's, for x86_64: one of
// the first Kubernetes version, and one of the next.
var ownImages = []string{"ami-03cf127a", "ami-1e749f67"}

// imagePools returns the pools with an image of the user's own.
func (m *management) imagePools() []infrav1.CAPTMachinePool {
	m.t.Helper()
	var list infrav1.CAPTMachinePoolList
	m.Expect(m.env.Client.List(m.t.Context(), &list, client.InNamespace(m.namespace))).To(Succeed())
	var pools []infrav1.CAPTMachinePool
	for _, pool := range list.Items {
		if _, own := pool.Spec.Variables["ami_id"]; own {
			pools = append(pools, pool)
		}
	}
	return pools
}

// changeImages sets another image of all pools with an image of the user's own.
func (m *management) changeImages(image string) {
	m.t.Helper()
	for _, pool := range m.imagePools() {
		m.change(&pool, func() {
			pool.Spec.Variables["ami_id"] = infrav1.Value{Raw: fmt.Appendf(nil, "%q", image)}
		})
	}
}

// nodesHaveImage waits until the nodes of all pools with an image of the user's own, and no
// others, have an image.
func (m *management) nodesHaveImage(image string) {
	m.t.Helper()
	pools := m.imagePools()
	m.Expect(pools).NotTo(BeEmpty())
	var want []string
	m.Eventually(func(g Gomega) {
		want = nil
		for _, pool := range m.imagePools() {
			g.Expect(pool.Spec.ProviderIDList).NotTo(BeEmpty())
			want = append(want, pool.Spec.ProviderIDList...)
		}
		found, err := m.instances(m.t.Context(), "Filter.3.Name", "image-id", "Filter.3.Value.1", image)
		g.Expect(err).NotTo(HaveOccurred())
		var have []string
		for _, i := range found {
			have = append(have, i.providerID())
		}
		g.Expect(have).To(ConsistOf(want))
	}, testTimeout, time.Second).Should(Succeed())
}
