package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/testenv"
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
	g.Expect(env.Stop()).To(MatchError(And(
		ContainSubstring(`nodes is forbidden`), ContainSubstring("attempting to grant RBAC permissions not currently held"), Not(ContainSubstring("secrets is forbidden")),
	)))
}
