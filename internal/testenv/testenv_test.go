package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

func TestEnvironment_failsIfTheManagerIsDenied(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	env, err := testenv.Start()
	g.Expect(err).NotTo(HaveOccurred())
	manager, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manager.Client.List(ctx, &corev1.SecretList{})).To(Succeed())
	g.Expect(apierrors.IsForbidden(manager.Client.List(ctx, &corev1.NodeList{}))).To(BeTrue())
	g.Expect(apierrors.IsForbidden(manager.Client.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "more"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}},
	}))).To(BeTrue())
	g.Expect(env.Client.List(ctx, &corev1.NodeList{})).To(Succeed(), "tests are administrators")
	g.Expect(manager.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}})).
		To(MatchError(ContainSubstring("capt-managers")), "policies are in force")
	run := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "capt-run-x-r1"}}
	g.Expect(env.Client.Create(ctx, run)).To(Succeed())
	g.Expect(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: run.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: run.Name}},
	})).To(Succeed())
	token, err := env.Token(ctx, "default", run.Name)
	g.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	rescue := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "capt-rescue-x-r1"}}
	g.Eventually(func() error { return c.Create(ctx, rescue) }, waits.Timeout).Should(MatchError(ContainSubstring("capt-secrets-of-runs")))
	g.Expect(env.Stop()).To(MatchError(And(
		ContainSubstring(`nodes is forbidden`), ContainSubstring("attempting to grant RBAC permissions not currently held"), Not(ContainSubstring("secrets is forbidden")),
		ContainSubstring("capt-secrets-of-runs"),
	)))
}
