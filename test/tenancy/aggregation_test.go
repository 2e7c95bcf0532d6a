package tenancy

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Kubernetes' roles for users of a namespace take the rules of the roles that they select, with
// what these select.
func TestAggregation_givesUsersOfANamespaceTheViewerOnly(t *testing.T) {
	g := NewWithT(t)
	var roles rbacv1.ClusterRoleList
	g.Expect(env.Client.List(t.Context(), &roles)).To(Succeed())
	byName := map[string]rbacv1.ClusterRole{}
	for _, role := range roles.Items {
		byName[role.Name] = role
	}
	var parts func(name string) []string
	parts = func(name string) []string {
		found := []string{name}
		rule := byName[name].AggregationRule
		if rule == nil {
			return found
		}
		for _, selects := range rule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&selects)
			g.Expect(err).NotTo(HaveOccurred())
			for other, role := range byName {
				if other != name && selector.Matches(labels.Set(role.Labels)) {
					found = append(found, parts(other)...)
				}
			}
		}
		return found
	}
	for _, name := range []string{"view", "edit", "admin"} {
		g.Expect(byName[name].AggregationRule).NotTo(BeNil(), name)
		var ours []string
		for _, part := range parts(name) {
			if strings.HasPrefix(part, "capt-") {
				ours = append(ours, part)
			}
		}
		g.Expect(ours).To(ConsistOf("capt-viewer"), name)
	}
}
