package web

import (
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// as returns the configuration of a user. The API server authorizes his requests as
// it does for a login.
func as(user string) *rest.Config {
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = user
	return config
}

// bind gives a user a role in a namespace.
func bind(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "role-"}, Rules: rules}
	g.Expect(env.Client.Create(t.Context(), role)).To(Succeed())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	g.Expect(env.Client.Create(t.Context(), binding)).To(Succeed())
	attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0], Resource: rules[0].Resources[0]}
	g.Eventually(func() error { return env.Allows(t.Context(), user, attributes) }).Should(Succeed())
}

var readAll = rbacv1.PolicyRule{
	APIGroups: []string{"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"},
	Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
}

func createCluster(t *testing.T, namespace, name string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name}
	NewWithT(t).Expect(env.Client.Create(t.Context(), cluster)).To(Succeed())
	return cluster
}

func setStatus(t *testing.T, obj client.Object, edit func()) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit()
		return env.Client.Status().Update(t.Context(), obj)
	}).Should(Succeed())
}

// createWorkspace creates a workspace of a Cluster, or one without a Cluster.
func createWorkspace(t *testing.T, namespace, cluster, name string) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "t"}, Approval: infrav1.ApprovalManual},
	}
	if cluster != "" {
		apply.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	NewWithT(t).Expect(env.Client.Create(t.Context(), apply)).To(Succeed())
	return apply
}
