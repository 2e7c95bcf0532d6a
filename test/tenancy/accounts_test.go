package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// withToken creates a service account with rules as a user, and returns a client with a token of it.
func withToken(t *testing.T, creator client.Client, namespace, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	g := NewWithT(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	allowed(t, "creating the account", func() error { return creator.Create(t.Context(), account) })
	g.Expect(bind(t.Context(), env, namespace, "system:serviceaccount:"+namespace+":"+name, rules...)).To(Succeed())
	token := &authenticationv1.TokenRequest{}
	g.Expect(env.Client.SubResource("token").Create(t.Context(), account, token)).To(Succeed())
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = token.Status.Token
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// The name of such an account is a permission for the Secrets of runs of earlier versions.
func TestNamespaceAdmin_cannotCreateAccountsOfRuns(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	admin := withRules(t, ns, "admin", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"*"}}, secretRule([]string{"*"}))
	account := func(name, generateName string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, GenerateName: generateName}}
	}
	allowed(t, "an account of his own", func() error { return admin.Create(t.Context(), account("my-capt-run-a", "")) })
	refused(t, "the account of a run", admin.Create(t.Context(), account("capt-run-prod-r999", "")))
	refused(t, "a generated name", admin.Create(t.Context(), account("", "capt-run-prod-r")))
	refused(t, "the beginning of a name", admin.Create(t.Context(), account("", "capt-run-")))

	mover := withRules(t, ns, "mover", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"create"}}, captRule("manage"))
	allowed(t, "a user who moves clusters", func() error { return mover.Create(t.Context(), account("capt-run-moved-r1", "")) })
	g.Expect(as(t, managerUser).Create(t.Context(), account("capt-run-a-r1", ""))).To(Succeed())
}

// Kubernetes' role edit may impersonate the service accounts of a namespace, also those that
// do not exist.
func TestNamespaceAdmin_cannotImpersonateARun(t *testing.T) {
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	names := []string{"tfstate-default-prod-ws", "capt-run-prod-r12"}
	forged := withRules(t, ns, "system:serviceaccount:"+ns+":capt-run-prod-r999", secretRule([]string{"get", "patch"}, names...), secretRule([]string{"create"}))
	for _, name := range names {
		s := secret(ns, name, "run", infrav1.RunLabel, "prod-r12")
		allowed(t, "the manager creates "+name, func() error { return manager.Create(t.Context(), s) })
		allowed(t, "reading", func() error { return forged.Get(t.Context(), client.ObjectKeyFromObject(s), s) })
		refused(t, name, patched(forged, s, func(s *corev1.Secret) { s.Data["result"] = []byte("x") }))
	}
	refused(t, "a state", forged.Create(t.Context(),
		secret(ns, "capt-rescue-prod-r999-abc-0", "rescue", infrav1.RunLabel, "prod-r999", infrav1.WorkspaceLabel, "prod")))
}

// Runs that an earlier version has started have no permission for reserved Secrets. They
// must be able to save their state and their result.
func TestRun_ofAnEarlierVersionSavesItsState(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	names := []string{"capt-run-a-r1", "tfstate-default-a-ws"}
	for _, name := range names {
		allowed(t, "the manager", func() error { return manager.Create(t.Context(), secret(ns, name, "run")) })
	}
	old := withToken(t, manager, ns, "capt-run-a-r1", secretRule([]string{"get", "update", "patch"}, names...), secretRule([]string{"create"}))
	allowed(t, "a snapshot", func() error {
		return old.Create(t.Context(), secret(ns, "capt-snapshot-a-r1-abc-0", "snapshot", infrav1.RunLabel, "a-r1", infrav1.WorkspaceLabel, "a"))
	})
	refused(t, "a snapshot of another", old.Create(t.Context(), secret(ns, "capt-snapshot-a-r1-def-0", "snapshot", infrav1.RunLabel, "a-r1", infrav1.WorkspaceLabel, "b")))
	for _, name := range names {
		s := &corev1.Secret{}
		g.Expect(old.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s)).To(Succeed())
		g.Expect(patched(old, s, func(s *corev1.Secret) { s.Data["result"] = []byte("x") })).To(Succeed(), name)
	}
	refused(t, "another run", old.Create(t.Context(), secret(ns, "capt-run-a-r2", "run", infrav1.RunLabel, "a-r1")))
}
