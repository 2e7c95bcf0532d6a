package config

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// watched is the namespace of config/namespaced.
const watched = "capt-workspaces"

// may reports whether the manager has a permission.
func may(t *testing.T, attributes authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + namespace + ":" + serviceAccount, ResourceAttributes: &attributes,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}}
	NewWithT(t).Expect(env.Client.Create(t.Context(), review)).To(Succeed())
	return review.Status.Allowed
}

// A manager of one namespace works without permissions on what is in the others.
func TestNamespaced_grantsNothingInOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	objects, err := testenv.Kustomize("config/namespaced")
	g.Expect(err).NotTo(HaveOccurred())
	// Other tests install config/default.
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "capt-manager-rolebinding"}}
	g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), everywhere))).To(Succeed())
	g.Expect(env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}})).To(Succeed())
	hooks := install(t, objects)
	g.Eventually(func() bool {
		return may(t, authorizationv1.ResourceAttributes{Namespace: watched, Verb: "list", Resource: "secrets"}) &&
			!may(t, authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"})
	}, testTimeout, 100*time.Millisecond).Should(BeTrue(), "the authorizer knows the bindings")

	for _, rule := range find[rbacv1.ClusterRole](t, objects, "ClusterRole", "capt-manager-role").Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, elsewhere := range []string{"default", ""} {
						attributes := authorizationv1.ResourceAttributes{Namespace: elsewhere, Verb: verb, Group: group, Resource: resource}
						g.Expect(may(t, attributes)).To(BeFalse(), "%+v", attributes)
					}
				}
			}
		}
	}
	g.Expect(may(t, authorizationv1.ResourceAttributes{Namespace: watched, Verb: "get", Resource: "namespaces", Name: watched})).To(BeTrue())
	g.Expect(may(t, authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Resource: "namespaces", Name: "default"})).To(BeFalse())
	g.Expect(may(t, authorizationv1.ResourceAttributes{Verb: "list", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})).To(BeFalse())
	g.Expect(clusterRules(t, objects)).To(ConsistOf(
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	), "in the cluster, the manager may only have the clients of its metrics reviewed")
	g.Expect(may(t, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets", Name: "other"})).To(BeFalse())

	_, container := manager(t, objects)
	m := start(t, append(container.Args, "--seal-key-secret="+namespace+"/capt-seal-key"), hooks)
	g.Eventually(func() (int, error) { return getStatus(http.DefaultClient, "http://"+m.health+"/readyz", "") }, testTimeout, 100*time.Millisecond).Should(Equal(http.StatusOK))
	checkWorkspace(t, m, watched, watched)
	g.Expect(m.forbidden()).To(BeEmpty(), "RBAC denied no request")

	policy := &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: "not-read"}, Spec: infrav1.ClusterWorkspacePolicySpec{
		Rules: []infrav1.PolicyRule{{Name: "never", Action: infrav1.PolicyDeny, Expression: "false", Message: "No."}},
	}}
	g.Expect(env.Client.Create(t.Context(), policy)).To(MatchError(ContainSubstring("--cluster-policies=false")), "nothing would enforce it")
}

// clusterRules returns the rules that the manager has in the whole cluster.
func clusterRules(t *testing.T, objects []*unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		binding := find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", object.GetName())
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Name == serviceAccount {
				rules = append(rules, find[rbacv1.ClusterRole](t, objects, "ClusterRole", binding.RoleRef.Name).Rules...)
			}
		}
	}
	return rules
}
