package tenancy

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// runJob returns the Job of a run as the executor creates it, with the account of a provider config.
func runJob(namespace, name string, change func(*corev1.PodSpec)) *batchv1.Job {
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: "terraform",
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
		Volumes:         []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "runner", Image: "runner", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
		}},
	}
	change(&pod)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: pod}},
	}
}

// Somebody may have stolen the manager's token.
func TestManager_createsNothingButRuns(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	const run = "capt-run-a-r1"
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	account := func(name string) *corev1.ServiceAccount { return &corev1.ServiceAccount{ObjectMeta: meta(name)} }
	role := func(name string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: meta(name), Rules: []rbacv1.PolicyRule{secretRule([]string{"get"}, run)}}
	}
	binding := func(name string, ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		ref.APIGroup = rbacv1.GroupName
		return &rbacv1.RoleBinding{ObjectMeta: meta(name), RoleRef: ref, Subjects: subjects}
	}
	ownRole := rbacv1.RoleRef{Kind: "Role", Name: run}
	subject := func(namespace, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	own := subject(ns, run)
	token := func(account *corev1.ServiceAccount) error {
		return manager.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
	}
	create := func(obj client.Object) error { return manager.Create(t.Context(), obj) }
	unchanged := func(*corev1.PodSpec) {}

	allowed(t, "the account of a run", func() error { return create(account(run)) })
	g.Expect(token(account(run))).To(Succeed())
	g.Expect(create(role(run))).To(Succeed())
	g.Expect(create(binding(run, ownRole, own))).To(Succeed())
	g.Expect(create(runJob(ns, run, unchanged))).To(Succeed())

	others := []client.Object{account("terraform"), role("theirs"), binding("theirs", rbacv1.RoleRef{Kind: "Role", Name: "theirs"})}
	for _, obj := range others {
		g.Expect(env.Client.Create(t.Context(), obj)).To(Succeed())
		refused(t, "deleting what is not of a run", manager.Delete(t.Context(), obj))
	}
	refused(t, "a token of another account", token(account("terraform")))
	refused(t, "another account", create(account("mine")))
	refused(t, "another Role", create(role("mine")))
	refused(t, "more rules of another Role", func() error {
		changed := role("theirs")
		changed.Rules = append(changed.Rules, secretRule([]string{"list"}))
		return manager.Update(t.Context(), changed)
	}())
	g.Expect(create(role("capt-run-a-r2"))).To(Succeed())
	for what, b := range map[string]*rbacv1.RoleBinding{
		"another binding":              binding("mine", ownRole, own),
		"a ClusterRole":                binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "ClusterRole", Name: "capt-manager-role"}, subject(ns, "capt-run-a-r2")),
		"another Role for a run":       binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "theirs"}, subject(ns, "capt-run-a-r2")),
		"another account":              binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "capt-run-a-r2"}, subject(ns, "default")),
		"the account of another":       binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "capt-run-a-r2"}, subject("default", "capt-run-a-r2")),
		"a user":                       binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "capt-run-a-r2"}, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "capt-run-a-r2"}),
		"one more account than theirs": binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "capt-run-a-r2"}, subject(ns, "capt-run-a-r2"), subject(ns, "default")),
	} {
		// RBAC refuses some of them first: the manager does not have their permissions.
		err := create(b)
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
	refused(t, "the account of another run", create(binding("capt-run-a-r2", rbacv1.RoleRef{Kind: "Role", Name: "capt-run-a-r2"}, own)))
	refused(t, "a second account", manager.Update(t.Context(), binding(run, ownRole, own, subject(ns, "default"))))

	stored := func(account string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "token-of-" + account, Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
		}}
	}
	refused(t, "a stored token of another account", create(stored("terraform")))
	refused(t, "a stored token of a run", create(stored(run)))
	theirs := stored("terraform")
	g.Expect(env.Client.Create(t.Context(), theirs)).To(Succeed())
	refused(t, "another account of a stored token", patched(manager, theirs, func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "default" }))

	joins := func(namespace string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bootstrap-token-" + ns[len(ns)-5:] + "0"}, Data: map[string][]byte{
			"token-id": []byte(ns[len(ns)-5:] + "0"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		}}
	}
	refused(t, "a token with which a node joins", create(joins(metav1.NamespaceSystem)))
	node := joins(metav1.NamespaceSystem)
	g.Expect(env.Client.Create(t.Context(), node)).To(Succeed())
	refused(t, "another secret of such a token", patched(manager, node, func(s *corev1.Secret) { s.Data["token-secret"] = []byte("fedcba9876543210") }))

	pod := &corev1.Pod{ObjectMeta: meta(run), Spec: runJob(ns, run, unchanged).Spec.Template.Spec}
	g.Expect(apierrors.IsForbidden(create(pod))).To(BeTrue(), "a pod")
	refused(t, "another Job", create(runJob(ns, "mine", unchanged)))
	refused(t, "a Job with the accounts of Kubernetes", create(runJob("kube-system", run, unchanged)))
	administrator := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "administrator-"}, Subjects: []rbacv1.Subject{subject(ns, "administrator")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	g.Expect(env.Client.Create(t.Context(), administrator)).To(Succeed())
	g.Eventually(func() error {
		return manager.Create(t.Context(), runJob(ns, "capt-run-a-r8", func(p *corev1.PodSpec) { p.ServiceAccountName = "administrator" }), client.DryRunAll)
	}, testTimeout).Should(MatchError(ContainSubstring("may read the Secrets of kube-system")))
	for what, change := range map[string]func(*corev1.PodSpec){
		"the network of the node":   func(p *corev1.PodSpec) { p.HostNetwork = true },
		"the processes of the node": func(p *corev1.PodSpec) { p.HostPID = true },
		"the memory of the node":    func(p *corev1.PodSpec) { p.HostIPC = true },
		"a node of its choice":      func(p *corev1.PodSpec) { p.NodeName = "control-plane" },
		"root":                      func(p *corev1.PodSpec) { p.SecurityContext = nil },
		"files of the node": func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
		"a privileged container": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		"more privileges": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil },
		"a capability": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}
		},
		"another container": func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "init", Image: "runner"}}
		},
		"a port of the node": func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		},
	} {
		refused(t, what, create(runJob(ns, "capt-run-a-r9", change)))
	}

	g.Expect(manager.Delete(t.Context(), binding(run, ownRole))).To(Succeed())
	g.Expect(manager.Delete(t.Context(), role(run))).To(Succeed())
	g.Expect(manager.Delete(t.Context(), account(run))).To(Succeed())
}

// What docs/operations.md says about the token of a manager, and no policy has to refuse.
func TestManager_hasNoOtherPermissions(t *testing.T) {
	g := NewWithT(t)
	manager := as(t, managerUser)
	may := func(group, resource, verb string) bool {
		resource, subresource, _ := strings.Cut(resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Group: group, Resource: resource, Subresource: subresource, Verb: verb, Name: "any"},
		}}
		g.Expect(manager.Create(t.Context(), review)).To(Succeed())
		return review.Status.Allowed
	}
	g.Expect(may("", "secrets", "get")).To(BeTrue(), "the manager reads every Secret")
	for group, resources := range map[string][]string{
		"":                             {"pods", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers", "namespaces", "nodes", "configmaps", "users"},
		"apps":                         {"deployments", "daemonsets", "statefulsets", "replicasets"},
		"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings"},
		"apiextensions.k8s.io":         {"customresourcedefinitions"},
		"admissionregistration.k8s.io": {"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		"certificates.k8s.io":          {"certificatesigningrequests", "certificatesigningrequests/approval"},
		"networking.k8s.io":            {"networkpolicies"},
		infrav1.GroupVersion.Group:     {"captreferencegrants", "workspacepolicies", "clusterworkspacepolicies"},
	} {
		for _, resource := range resources {
			for _, verb := range []string{"create", "update", "patch", "delete", "impersonate", "escalate", "bind", "approve"} {
				g.Expect(may(group, resource, verb)).To(BeFalse(), "%s %s/%s", verb, group, resource)
			}
		}
	}
	for _, resource := range []string{"nodes", "pods/log", "nodes/proxy"} {
		g.Expect(may("", resource, "get")).To(BeFalse(), "get %s", resource)
	}
	for _, verb := range []string{"escalate", "bind"} {
		g.Expect(may("rbac.authorization.k8s.io", "roles", verb)).To(BeFalse(), "%s roles", verb)
	}
	g.Expect(may("", "serviceaccounts", "impersonate")).To(BeFalse())
}

// Managers have other names with the chart and with clusterctl.
func TestManager_isKnownByItsPermission(t *testing.T) {
	ns := env.Namespace(t)
	accounts := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"create"}}
	pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	other := withRules(t, ns, "system:serviceaccount:elsewhere:my-capt", accounts, captRule("manage"))
	allowed(t, "the account of a run", func() error { return other.Create(t.Context(), account("capt-run-a-r1")) })
	refused(t, "another account", other.Create(t.Context(), account("mine")))

	admin := withRules(t, ns, "system:serviceaccount:elsewhere:backup", accounts, pods, captRule("manage"))
	allowed(t, "an administrator", func() error { return admin.Create(t.Context(), account("restored")) })
	user := withRules(t, ns, "a-user", accounts, captRule("manage"))
	allowed(t, "a user", func() error { return user.Create(t.Context(), account("another")) })
}
