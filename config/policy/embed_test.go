package policy

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestObjects_haveTheNamesOfACluster(t *testing.T) {
	g := NewWithT(t)
	objects, err := Objects()
	g.Expect(err).NotTo(HaveOccurred())
	policies, err := Policies()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(ContainElement(HaveField("Name", "capt-namespaces")))
	bound := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() == bindingKind {
			of, _, err := unstructured.NestedString(object.Object, "spec", "policyName")
			g.Expect(err).NotTo(HaveOccurred())
			bound[of] = true
		}
	}
	for _, policy := range policies {
		g.Expect(bound).To(HaveKey(policy.Name))
	}
}
