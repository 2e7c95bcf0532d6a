package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestPolicies_needAPolicyEditor(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	rules := []infrav1.PolicyRule{{Name: "keep", Action: infrav1.PolicyDeny, Expression: `"delete" in resource.actions`, Message: "No"}}
	own := &infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "guard"}, Spec: infrav1.WorkspacePolicySpec{Rules: rules}}
	cluster := &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: infrav1.ClusterWorkspacePolicySpec{Rules: rules}}
	policies := withRoles(t, ns, "policies", "capt-policy-editor")
	allowed(t, "a policy editor", func() error { return policies.Create(t.Context(), own.DeepCopy()) })
	g.Expect(env.Client.Create(t.Context(), cluster.DeepCopy())).To(Succeed())

	everything := withRoles(t, ns, "tenant", "capt-viewer", "capt-editor", "capt-platform-editor", "capt-approver", "capt-self-approver")
	allowed(t, "reading policies", func() error { return everything.Get(t.Context(), client.ObjectKeyFromObject(own), own) })
	for what, err := range map[string]error{
		"creating a policy":                 everything.Create(t.Context(), &infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}, Spec: own.Spec}),
		"changing a policy":                 patched(everything, own, func(p *infrav1.WorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyWarn }),
		"deleting a policy":                 everything.Delete(t.Context(), own.DeepCopy()),
		"changing a policy of the cluster":  patched(everything, cluster, func(p *infrav1.ClusterWorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyWarn }),
		"deleting a policy of the cluster":  everything.Delete(t.Context(), cluster.DeepCopy()),
		"a policy editor of one namespace":  policies.Delete(t.Context(), cluster.DeepCopy()),
		"a policy editor in another one":    policies.Create(t.Context(), &infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Spec: own.Spec}),
		"a policy editor, creating for all": policies.Create(t.Context(), &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: ns + "-2"}, Spec: cluster.Spec}),
	} {
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
	var role rbacv1.ClusterRole
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Name: "capt-policy-editor"}, &role)).To(Succeed())
	for label := range role.Labels {
		g.Expect(label).NotTo(HavePrefix("rbac.authorization.k8s.io/aggregate-to-"), "an administrator of a namespace must not have it")
	}
}
