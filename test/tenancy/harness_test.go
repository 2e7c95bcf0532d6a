package tenancy

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
	"github.com/appthrust/capt/internal/webhooks"
)

const managerUser = testenv.ManagerUser

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = waits.Timeout

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithWebhooks(webhooks.Setup), testenv.WithAttacks()))
}

// impersonate returns a client of a user.
func impersonate(e *testenv.Environment, user string) (client.Client, error) {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return client.New(config, client.Options{Scheme: e.Scheme})
}

// bind grants rules in a namespace to a user.
func bind(ctx context.Context, e *testenv.Environment, namespace, user string, rules ...rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	if err := e.Client.Create(ctx, role); err != nil {
		return err
	}
	return e.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// as returns a client of a user.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	c, err := impersonate(env, user)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}

// withRoles returns a client of a user with shipped roles in a namespace. It waits until
// the authorizer has the binding.
func withRoles(t *testing.T, namespace, user string, roles ...string) client.Client {
	t.Helper()
	g := NewWithT(t)
	for _, role := range roles {
		g.Expect(env.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})).To(Succeed())
	}
	return as(t, user)
}

// withRules returns a client of a user with rules in a namespace.
func withRules(t *testing.T, namespace, user string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	NewWithT(t).Expect(bind(t.Context(), env, namespace, user, rules...)).To(Succeed())
	return as(t, user)
}

func viewer(t *testing.T, namespace string) client.Client {
	return withRoles(t, namespace, "viewer", "capt-viewer")
}

func editor(t *testing.T, namespace string) client.Client {
	return withRoles(t, namespace, "editor", "capt-viewer", "capt-editor")
}

func approver(t *testing.T, namespace string) client.Client {
	return withRoles(t, namespace, "approver", "capt-viewer", "capt-editor", "capt-approver")
}

func secretRule(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs, ResourceNames: names}
}

func captRule(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets/capt"}, Verbs: []string{verb}, ResourceNames: names}
}

// secretWriter may do everything with the Secrets of a namespace, as Kubernetes' role edit.
func secretWriter(t *testing.T, namespace string) client.Client {
	return withRules(t, namespace, "writer", secretRule([]string{"*"}))
}

// secret returns a Secret of a component. The label is missing if it is empty.
func secret(namespace, name, component string, labels ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("v")},
	}
	if component != "" {
		s.Labels[infrav1.ComponentLabel] = component
	}
	for i := 0; i+1 < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// allowed waits until a request succeeds: the authorizer learns of bindings a moment later.
func allowed(t *testing.T, what string, request func() error) {
	t.Helper()
	NewWithT(t).Eventually(request, testTimeout, 100*time.Millisecond).Should(Succeed(), what)
}

// refused expects that a policy refuses a request that RBAC allows.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	g.Expect(err).To(MatchError(ContainSubstring("ValidatingAdmissionPolicy")), what)
}

// patched applies a change with a merge patch.
func patched[T client.Object](c client.Client, obj T, change func(T)) error {
	before := obj.DeepCopyObject().(T)
	after := obj.DeepCopyObject().(T)
	change(after)
	return c.Patch(context.Background(), after, client.MergeFrom(before))
}
