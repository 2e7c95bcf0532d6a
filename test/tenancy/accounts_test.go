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

// An account that exists before its run would have the permissions of the run.
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

// namespaceAdmin may write the accounts, Roles and Secrets of a namespace, and more than
// Kubernetes' role admin: its Roles may have permissions that the user does not have.
func namespaceAdmin(t *testing.T, namespace string) client.Client {
	all := []string{"*"}
	return withRules(t, namespace, "admin", secretRule(all),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts", "serviceaccounts/token"}, Verbs: all},
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: all})
}

// A binding refers to a Role by its name, also to one that CAPT creates later.
func TestNamespaceAdmin_cannotHaveTheRoleOfARun(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	admin, manager := namespaceAdmin(t, ns), as(t, managerUser)
	role := func(name, generateName string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, GenerateName: generateName}, Rules: []rbacv1.PolicyRule{secretRule([]string{"get"}, "mine")}}
	}
	binding := func(name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		}
	}
	himself := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "admin"}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "capt-run-prod-r8"}
	own := role("mine", "")
	allowed(t, "a Role of his own", func() error { return admin.Create(t.Context(), own) })
	mine := binding("mine", "mine", himself)
	g.Expect(admin.Create(t.Context(), mine)).To(Succeed())

	refused(t, "the Role of a run", admin.Create(t.Context(), role("capt-run-prod-r8", "")))
	refused(t, "a generated name", admin.Create(t.Context(), role("", "capt-run-prod-r")))
	refused(t, "the binding of a run", admin.Create(t.Context(), binding("capt-run-prod-r8", "mine", himself)))
	refused(t, "permissions for the account of a run", admin.Create(t.Context(), binding("b", "mine", account)))
	refused(t, "permissions for its user", admin.Create(t.Context(), binding("b", "mine", rbacv1.Subject{
		APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:serviceaccount:" + ns + ":capt-run-prod-r8",
	})))
	refused(t, "the account of a run in his binding", patched(admin, mine, func(b *rbacv1.RoleBinding) { b.Subjects = append(b.Subjects, account) }))

	real := role("capt-run-prod-r8", "")
	allowed(t, "the manager creates a Role", func() error { return manager.Create(t.Context(), real) })
	g.Expect(manager.Create(t.Context(), binding("capt-run-prod-r8", "capt-run-prod-r8", account))).To(Succeed())
	refused(t, "his binding to the Role of a run", admin.Create(t.Context(), binding("b", "capt-run-prod-r8", himself)))
	refused(t, "more rules", patched(admin, real, func(r *rbacv1.Role) { r.Rules = own.Rules; r.Rules[0].ResourceNames = []string{"any"} }))
	refused(t, "deleting the Role of a run", admin.Delete(t.Context(), real))
	refused(t, "deleting its binding", admin.Delete(t.Context(), binding("capt-run-prod-r8", "")))
	refused(t, "deleting all Roles", admin.DeleteAllOf(t.Context(), &rbacv1.Role{}, client.InNamespace(ns), client.MatchingFields{"metadata.name": real.Name}))
	g.Expect(admin.Delete(t.Context(), mine)).To(Succeed())
	g.Expect(admin.Delete(t.Context(), own)).To(Succeed())
	for _, kubernetes := range []string{"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector"} {
		g.Expect(as(t, kubernetes).Delete(t.Context(), binding("capt-run-prod-r8", ""), client.DryRunAll)).To(Succeed())
		g.Expect(as(t, kubernetes).Delete(t.Context(), real, client.DryRunAll)).To(Succeed())
	}
	g.Expect(manager.Delete(t.Context(), real)).To(Succeed())
}

// The token of a run is for its pod.
func TestNamespaceAdmin_getsNoTokenOfARun(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	admin, manager := namespaceAdmin(t, ns), as(t, managerUser)
	run := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "capt-run-a-r3"}}
	own := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mine"}}
	token := func(c client.Client, account *corev1.ServiceAccount) error {
		return c.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
	}
	stored := func(name, account string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
		}}
	}
	allowed(t, "an account of his own", func() error { return admin.Create(t.Context(), own) })
	g.Expect(token(admin, own)).To(Succeed())
	kept := stored("mine", "mine")
	g.Expect(admin.Create(t.Context(), kept)).To(Succeed())
	g.Expect(manager.Create(t.Context(), run)).To(Succeed())

	refused(t, "a token of a run", token(admin, run))
	refused(t, "a stored token of a run", admin.Create(t.Context(), stored("theirs", run.Name)))
	refused(t, "another account of a stored token", patched(admin, kept, func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = run.Name }))
	g.Expect(token(manager, run)).To(Succeed())

	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}
	g.Expect(bind(t.Context(), env, ns, "system:node:n", rule)).To(Succeed())
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:n", Groups: []string{"system:nodes", "system:authenticated"}}
	node, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	// The admission plugin NodeRestriction asks for the pod.
	allowed(t, "the node of its pod", func() error { return token(node, run) })
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

// The token of a run that has ended is valid for some seconds more, and its name gives no
// permission.
func TestRun_withoutItsRoleWritesNothing(t *testing.T) {
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	names := []string{"capt-run-a-r1", "tfstate-default-a-ws"}
	for _, name := range names {
		allowed(t, "the manager", func() error {
			return manager.Create(t.Context(), secret(ns, name, "run", infrav1.WorkspaceLabel, "a"))
		})
	}
	run := withToken(t, manager, ns, "capt-run-a-r1", secretRule([]string{"get", "update", "patch"}, names...), secretRule([]string{"create"}))
	for _, name := range names {
		s := &corev1.Secret{}
		allowed(t, "reading", func() error { return run.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s) })
		refused(t, name, patched(run, s, func(s *corev1.Secret) { s.Data["result"] = []byte("x") }))
	}
	refused(t, "a snapshot", run.Create(t.Context(),
		secret(ns, "capt-snapshot-a-r1-abc-0", "snapshot", infrav1.RunLabel, "a-r1", infrav1.WorkspaceLabel, "a")))
}

// A user may give the accounts of a namespace permissions, all at once.
func TestRun_changesNoSecretOfAnother(t *testing.T) {
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	names := []string{"capt-run-b-r1", "tfstate-default-b-ws", "capt-run-a-r30", "tfstate-default-a-b-ws", "capt-plan-0123456789abcdef-0", "capt-seal-key"}
	for _, name := range names {
		allowed(t, "the manager", func() error { return manager.Create(t.Context(), secret(ns, name, "run")) })
	}
	granted := secretRule([]string{"get", "update", "patch"}, names...)
	for who, rules := range map[string][]rbacv1.PolicyRule{
		"capt-run-a-r3": {granted, captRule("store", "a-r3", "workspace:a", "capt-run-a-r3")},
		"capt-run-a-r2": {granted},
	} {
		run := withToken(t, manager, ns, who, rules...)
		for _, name := range names {
			s := &corev1.Secret{}
			allowed(t, "reading", func() error { return run.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s) })
			refused(t, who+" changes "+name, patched(run, s, func(s *corev1.Secret) { s.Data["result"] = []byte("x") }))
		}
	}
}
