package tenancy

import (
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

// quota matches the recommended quota of a team in the documentation.
var quota = regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: ResourceQuota\n.*?)```")

// A tenant stores large objects in the kind that is not limited.
func TestQuota_countsEveryKind(t *testing.T) {
	g := NewWithT(t)
	match := quota.FindSubmatch(testenv.ReadFile(t, "docs/catalogue.md"))
	g.Expect(match).NotTo(BeNil())
	var recommended corev1.ResourceQuota
	g.Expect(yaml.UnmarshalStrict(match[1], &recommended)).To(Succeed())
	objects, err := testenv.Kustomize("config/crd")
	g.Expect(err).NotTo(HaveOccurred())
	for _, obj := range objects {
		if scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope"); scope == "Namespaced" {
			g.Expect(recommended.Spec.Hard).To(HaveKey(corev1.ResourceName("count/" + obj.GetName())))
		}
	}
	recommended.Namespace = env.Namespace(t)
	g.Expect(env.Client.Create(t.Context(), &recommended)).To(Succeed())
}
