package job_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// as returns a client with the permissions of a run's service account.
func (f *fixture) as(run terraform.Run) client.Client {
	f.t.Helper()
	return f.asAccount("capt-run-" + run.ID)
}

func (f *fixture) asAccount(name string) client.Client {
	f.t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + f.namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + f.namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	f.Expect(err).NotTo(HaveOccurred())
	return c
}

func TestAccess_isLimitedToTheRunAndItsState(t *testing.T) {
	f := newFixture(t)
	mine := f.start("mine")
	f.start("other")
	me := f.as(mine)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.namespace, Name: name} }
	get := func(obj client.Object, name string) error {
		return me.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, obj)
	}
	// The authorizer reads from a cache.
	f.Eventually(func() error { return get(&corev1.Secret{}, "capt-run-mine-r1") }).Should(Succeed())
	f.Expect(get(&corev1.Secret{}, "tfstate-default-mine")).To(Succeed())
	f.Expect(get(&coordinationv1.Lease{}, "lock-tfstate-default-mine")).To(Succeed())
	f.Expect(me.Create(f.ctx, &corev1.Secret{ObjectMeta: named("capt-snapshot-mine-1-0")})).To(Succeed())

	for action, err := range map[string]error{
		"another run":              get(&corev1.Secret{}, "capt-run-other-r1"),
		"another state":            get(&corev1.Secret{}, "tfstate-default-other"),
		"another lock":             get(&coordinationv1.Lease{}, "lock-tfstate-default-other"),
		"a Secret that it created": get(&corev1.Secret{}, "capt-snapshot-mine-1-0"),
		"all Secrets":              me.List(f.ctx, &corev1.SecretList{}, client.InNamespace(f.namespace)),
		"all Leases":               me.List(f.ctx, &coordinationv1.LeaseList{}, client.InNamespace(f.namespace)),
		"changing another state":   me.Update(f.ctx, &corev1.Secret{ObjectMeta: named("tfstate-default-other")}),
		"deleting its run":         me.Delete(f.ctx, &corev1.Secret{ObjectMeta: named("capt-run-mine-r1")}),
		"deleting its state":       me.Delete(f.ctx, &corev1.Secret{ObjectMeta: named("tfstate-default-mine")}),
		"other Leases":             me.Create(f.ctx, &coordinationv1.Lease{ObjectMeta: named("mine")}),
		"Jobs":                     me.Create(f.ctx, &batchv1.Job{ObjectMeta: named("mine")}),
		"more permissions":         me.Create(f.ctx, &rbacv1.Role{ObjectMeta: named("mine")}),
	} {
		f.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", action, err)
	}
}

// TestAccess_ofRunsWithTheSameAccountIsSeparate starts two runs whose pods have the same
// service account. Its permissions would be those of both runs.
func TestAccess_ofRunsWithTheSameAccountIsSeparate(t *testing.T) {
	f := newFixture(t)
	const shared = "terraform"
	f.Expect(env.Client.Create(f.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: shared}})).To(Succeed())
	account := func(r *terraform.Request) { r.Pod.ServiceAccountName = shared }
	mine := f.start("mine", account)
	f.start("other", account)
	read := func(c client.Client, name string) error {
		return c.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, &corev1.Secret{})
	}

	// The pod has the token of the run beside that of its account.
	created := f.job("capt-run-mine-r1")
	spec := created.Spec.Template.Spec
	f.Expect(spec.ServiceAccountName).To(Equal(shared))
	f.Expect(spec.AutomountServiceAccountToken).To(BeNil(), "the account decides whether its pods have a token")
	var stored corev1.Secret
	f.Expect(f.get(&stored, "capt-token-mine-r1")).To(Succeed())
	f.Expect(projected(spec)).To(ContainElement(HaveField("Secret.Name", stored.Name)))
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = string(stored.Data["token"])
	run, err := client.New(config, client.Options{Scheme: env.Scheme})
	f.Expect(err).NotTo(HaveOccurred())
	f.Eventually(func() error { return read(run, "capt-run-mine-r1") }).Should(Succeed(), "the authorizer reads from a cache")

	for name, c := range map[string]client.Client{"the run": run, "the account": f.asAccount(shared)} {
		for _, secret := range []string{"capt-run-other-r1", "tfstate-default-other", "capt-token-other-r1", "capt-token-mine-r1"} {
			f.Expect(apierrors.IsForbidden(read(c, secret))).To(BeTrue(), "%s reads %s", name, secret)
		}
	}
	f.Expect(apierrors.IsForbidden(read(f.asAccount(shared), "capt-run-mine-r1"))).To(BeTrue(), "the account of the pod has nothing of the run")

	f.Expect(f.executor.Forget(f.ctx, mine)).To(Succeed())
	f.Expect(apierrors.IsNotFound(f.get(&corev1.Secret{}, "capt-token-mine-r1"))).To(BeTrue())
	f.Eventually(func() bool { return apierrors.IsUnauthorized(read(run, "capt-run-mine-r1")) }).Should(BeTrue(), "the token ends with the run")
}

// A module that reads the token of its run cannot use it elsewhere, for example at AWS.
func TestToken_isForTheAPIServerOnly(t *testing.T) {
	f := newFixture(t)
	f.start("audience", func(r *terraform.Request) { r.Pod.ServiceAccountName = "terraform" })
	var stored corev1.Secret
	f.Expect(f.get(&stored, "capt-token-audience-r1")).To(Succeed())
	review := func(audiences ...string) authenticationv1.TokenReviewStatus {
		r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(stored.Data["token"]), Audiences: audiences}}
		f.Expect(env.Client.Create(f.ctx, r)).To(Succeed())
		return r.Status
	}
	own := review()
	f.Expect(own.Authenticated).To(BeTrue(), own.Error)
	f.Expect(own.User.Username).To(HaveSuffix(":capt-run-audience-r1"))
	for _, audience := range []string{"sts.amazonaws.com", "vault", "https://example.com"} {
		f.Expect(review(audience).Authenticated).To(BeFalse(), audience)
	}

	f.start("projected")
	created := f.job("capt-run-projected-r1")
	f.Expect(projected(created.Spec.Template.Spec)).To(ContainElement(HaveField("ServiceAccountToken", HaveValue(And(
		HaveField("Audience", BeEmpty()), HaveField("ExpirationSeconds", HaveValue(BeNumerically("<=", 3600))),
	)))))
}

// The token of a run is deleted with the workspace, whatever an attempt before has deleted.
func TestRemove_deletesStoredTokens(t *testing.T) {
	f := newFixture(t)
	account := func(r *terraform.Request) { r.Pod.ServiceAccountName = "terraform" }
	mine, other := f.workspace("mine"), f.workspace("other")
	f.Expect(f.executor.Start(f.ctx, f.run(mine, account))).To(Succeed())
	f.Expect(f.executor.Start(f.ctx, f.run(other, account))).To(Succeed())
	f.Expect(env.Client.Delete(f.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "capt-run-mine-r1"}})).To(Succeed())
	f.Expect(f.executor.Remove(f.ctx, mine)).To(Succeed())
	f.Expect(apierrors.IsNotFound(f.get(&corev1.Secret{}, "capt-token-mine-r1"))).To(BeTrue())
	f.Expect(f.get(&corev1.Secret{}, "capt-token-other-r1")).To(Succeed(), "the token of another workspace stays")
}

// projected returns the projected sources of the volumes of a pod.
func projected(spec corev1.PodSpec) []corev1.VolumeProjection {
	var sources []corev1.VolumeProjection
	for _, volume := range spec.Volumes {
		if volume.Projected != nil {
			sources = append(sources, volume.Projected.Sources...)
		}
	}
	return sources
}

// TestStart_mountsNoOtherToken creates the Secret of a token before CAPT does, with the
// token of another account.
func TestStart_mountsNoOtherToken(t *testing.T) {
	f := newFixture(t)
	f.Expect(env.Client.Create(f.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "capt-token-mine-r1", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})).To(Succeed())
	f.start("mine", func(r *terraform.Request) { r.Pod.ServiceAccountName = "terraform" })
	var stored corev1.Secret
	f.Expect(f.get(&stored, "capt-token-mine-r1")).To(Succeed())
	f.Expect(stored.Type).To(Equal(corev1.SecretTypeOpaque))
}

// The token of a run is not where modules look for the token of a service account.
func TestPod_hasItsTokenApart(t *testing.T) {
	f := newFixture(t)
	f.start("mine")
	created := f.job("capt-run-mine-r1")
	spec := created.Spec.Template.Spec
	f.Expect(*spec.AutomountServiceAccountToken).To(BeFalse())
	f.Expect(projected(spec)).To(ContainElement(HaveField("ServiceAccountToken.ExpirationSeconds", HaveValue(BeEquivalentTo(3600)))))
	f.Expect(spec.Containers[0].Args).To(ContainElements("--api-dir=/var/run/secrets/capt", "--hide=/var/run/secrets/capt"))
	f.Expect(spec.Containers[0].Resources.Limits).To(HaveKey(corev1.ResourceEphemeralStorage))
}

// TestAccess_isNotForgedByARun forges the next run of a workspace. A run can create
// Secrets, and knows its own workspace.
func TestAccess_isNotForgedByARun(t *testing.T) {
	for name, change := range map[string]func(*terraform.Request){
		"workspace": func(r *terraform.Request) { r.Workspace.Name = "other" },
		"namespace": func(r *terraform.Request) { r.Workspace.Namespace = "kube-system" },
		"run":       func(r *terraform.Request) { r.RunID = "other-r1" },
		"state":     func(r *terraform.Request) { r.Backend.SecretSuffix = "other" },
		"moved": func(r *terraform.Request) {
			from := *r
			from.Workspace.Name = "other"
			from.Backend.SecretSuffix = "other"
			r.Backend, r.From = terraform.Backend{Type: "s3", HCL: `bucket = "b"`}, &from
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			mine, other := f.workspace("mine"), f.workspace("other")
			first := f.run(mine)
			f.Expect(f.executor.Start(f.ctx, first)).To(Succeed())
			f.Expect(f.executor.Start(f.ctx, f.run(other))).To(Succeed())
			request, err := record.Request(f.secret(first))
			f.Expect(err).NotTo(HaveOccurred())
			request.RunID = "mine-r2"
			change(request)
			forged, err := record.NewRun(request, record.Meta(mine, record.ComponentRun, "mine-r2"))
			f.Expect(err).NotTo(HaveOccurred())
			forged.Name = record.SecretName("mine-r2")
			f.Eventually(func() error { return f.as(first).Create(f.ctx, forged) }).Should(Succeed(), "the authorizer reads from a cache")

			run := terraform.Run{Namespace: f.namespace, Workspace: "mine", WorkspaceUID: mine.UID, ID: "mine-r2", Digest: record.RequestDigest(forged)}
			f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
			f.Expect(f.result(run)).To(HaveField("Outcome", terraform.OutcomeFailed))
			f.Expect(apierrors.IsNotFound(f.get(&batchv1.Job{}, "capt-run-mine-r2"))).To(BeTrue())
			f.Expect(apierrors.IsNotFound(f.get(&rbacv1.Role{}, "capt-run-mine-r2"))).To(BeTrue())
		})
	}
}

// A state without its finalizer is one that a workspace, a user or the tool has left.
func TestAccess_keepsTheState(t *testing.T) {
	f := newFixture(t)
	left := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "tfstate-default-left", Finalizers: []string{"example.com/x"}}}
	f.Expect(env.Client.Create(f.ctx, left)).To(Succeed())
	f.start("left")
	f.start("mine")
	for name, finalizers := range map[string]int{"left": 2, "mine": 1} {
		var state corev1.Secret
		f.Expect(f.get(&state, "tfstate-default-"+name)).To(Succeed())
		f.Expect(state.Finalizers).To(And(ContainElement(record.StateFinalizer), HaveLen(finalizers)), name)
		var lock coordinationv1.Lease
		f.Expect(f.get(&lock, "lock-tfstate-default-"+name)).To(Succeed())
		f.Expect(lock.Finalizers).To(BeEmpty(), name)
	}
}

// Only a request of another workspace names its state.
func TestAccess_stateIsNotThatOfAnotherWorkspace(t *testing.T) {
	f := newFixture(t)
	suffix := func(r *terraform.Request) { r.Backend.SecretSuffix = template.StateSuffix("victim") }
	f.start("victim", suffix)

	attacker := f.run(f.workspace("attacker"), suffix)
	f.Expect(f.executor.Start(f.ctx, attacker)).To(Succeed())
	f.Expect(f.result(attacker)).To(HaveField("Outcome", terraform.OutcomeFailed))
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.Role{}, access.Name(attacker.ID)))).To(BeTrue(), "it gets no access to the state")
}

// TestAccess_stateIsNotAToken reserves the name of the state of another workspace, whose
// run may read its state.
func TestAccess_stateIsNotAToken(t *testing.T) {
	f := newFixture(t)
	first := f.start("mine")
	next := f.run(f.workspace("next"))
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: "tfstate-default-next",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	f.Eventually(func() error { return f.as(first).Create(f.ctx, token) }).Should(Succeed(), "the authorizer reads from a cache")

	f.Expect(f.executor.Start(f.ctx, next)).To(Succeed())
	result := f.result(next)
	f.Expect(result).To(HaveField("Outcome", terraform.OutcomeFailed))
	f.Expect(result.Diagnostics[0].Detail).To(ContainSubstring("is not a state"))
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.Role{}, "capt-run-next-r1"))).To(BeTrue())
}

func TestStart_refusesAnotherRequest(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("mine"))
	run.Digest = "sha256:other"
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.result(run)).To(HaveField("Outcome", terraform.OutcomeFailed))
	f.Expect(apierrors.IsNotFound(f.get(&batchv1.Job{}, "capt-run-mine-r1"))).To(BeTrue())
}

// tokenComponent stands for a Secret that a module created to read the token of a
// service account.
const tokenComponent = "token"

// stored returns a part of the stored content of a workspace.
func stored(namespace, workspace, name, component string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: record.Meta(terraform.WorkspaceRef{Namespace: namespace, Name: workspace}, component, "")}
	secret.Name, secret.OwnerReferences = name, nil
	secret.Annotations = map[string]string{record.ChunksAnnotation: "2"}
	if component == tokenComponent {
		secret.Labels["capt.appthrust.io/component"] = record.ComponentRescue
		secret.Type = corev1.SecretTypeServiceAccountToken
		secret.Annotations[corev1.ServiceAccountNameKey] = "default"
	}
	return secret
}

func TestAccess_dependsOnTheOperation(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*terraform.Request)
		// stored are the Secrets that exist, with their component. reads are those that
		// the run may read, other than those of the run and the state.
		stored  map[string]string
		reads   []string
		creates bool
		state   bool
	}{
		{name: "apply", change: func(*terraform.Request) {}, creates: true, state: true},
		{name: "drift", change: func(r *terraform.Request) { r.Operation = terraform.OperationCheckDrift }, state: true},
		{
			name: "elsewhere", change: func(r *terraform.Request) { r.Backend = terraform.Backend{Type: "s3", HCL: `bucket = "b"`} },
			creates: true,
		},
		{
			name: "plan", change: func(r *terraform.Request) {
				r.Operation, r.Plan = terraform.OperationApply, &terraform.PlanRef{ID: "plan-1"}
			},
			stored: map[string]string{"capt-plan-1-0": record.ComponentPlan, "capt-plan-1-1": record.ComponentPlan},
			reads:  []string{"capt-plan-1-0", "capt-plan-1-1"}, creates: true, state: true,
		},
		{
			name: "missing", change: func(r *terraform.Request) {
				r.Operation, r.Snapshot = terraform.OperationRestoreState, "snapshot-x-3"
			},
			creates: true, state: true,
		},
		{
			name: "mismatched", change: func(r *terraform.Request) {
				r.Operation, r.Snapshot = terraform.OperationRestoreState, "plan-1"
				r.Module.Pin = &terraform.ModuleContent{Digest: "d", Archive: "snapshot-other-r1"}
			},
			stored:  map[string]string{"capt-plan-1-0": record.ComponentPlan, "capt-plan-1-1": record.ComponentPlan, "capt-snapshot-other-r1-0": record.ComponentSnapshot},
			creates: true, state: true,
		},
		{
			name: "token", change: func(r *terraform.Request) { r.Rescued = []string{"rescue-1"} },
			stored:  map[string]string{"capt-rescue-1-0": tokenComponent},
			creates: true, state: true,
		},
		{
			name: "module", change: func(r *terraform.Request) {
				r.Module.Pin = &terraform.ModuleContent{Digest: "d", Archive: "module-x-1"}
			},
			stored: map[string]string{"capt-module-x-1-0": record.ComponentModule, "capt-module-x-1-1": record.ComponentModule},
			reads:  []string{"capt-module-x-1-0", "capt-module-x-1-1"}, creates: true, state: true,
		},
		{
			name: "list", change: func(r *terraform.Request) {
				r.Operation, r.StateCommand = terraform.OperationStateCommand, &terraform.StateCommand{ID: "1", Command: terraform.StateList}
			},
			creates: true, state: true,
		},
		{
			name: "rm-elsewhere", change: func(r *terraform.Request) {
				r.Operation, r.StateCommand = terraform.OperationStateCommand, &terraform.StateCommand{ID: "1", Command: terraform.StateRm, Args: []string{"a.b"}}
				r.Backend = terraform.Backend{Type: "s3", HCL: `bucket = "b"`}
			},
			creates: true,
		},
		{
			name: "push", change: func(r *terraform.Request) {
				r.Operation, r.StateCommand = terraform.OperationStateCommand, &terraform.StateCommand{ID: "1", Command: terraform.StatePush, Input: "input-1"}
			},
			stored: map[string]string{"capt-input-1-0": record.ComponentTransfer, "capt-input-1-1": record.ComponentTransfer},
			reads:  []string{"capt-input-1-0", "capt-input-1-1"}, creates: true, state: true,
		},
		{
			name: "move", change: func(r *terraform.Request) {
				r.Operation, r.From = terraform.OperationMoveState, &terraform.Request{Backend: r.Backend, Workspace: r.Workspace, Rescued: []string{"rescue-1"}}
				r.Backend = terraform.Backend{Type: "s3", HCL: `bucket = "b"`}
			},
			stored: map[string]string{"capt-rescue-1-0": record.ComponentRescue, "capt-rescue-1-1": record.ComponentRescue},
			reads:  []string{"capt-rescue-1-0", "capt-rescue-1-1"}, creates: true, state: true,
		},
		{
			name: "move-back", change: func(r *terraform.Request) {
				r.Operation, r.From = terraform.OperationMoveState, &terraform.Request{Backend: terraform.Backend{Type: "s3", HCL: `bucket = "b"`}, Workspace: r.Workspace}
			},
			creates: true, state: true,
		},
		{
			name: "move-elsewhere", change: func(r *terraform.Request) {
				r.Backend = terraform.Backend{Type: "s3", HCL: `bucket = "b"`}
				r.Operation, r.From = terraform.OperationMoveState, &terraform.Request{Backend: terraform.Backend{Type: "s3", HCL: `bucket = "c"`}, Workspace: r.Workspace}
			},
			creates: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			for name, component := range test.stored {
				f.Expect(env.Client.Create(f.ctx, stored(f.namespace, test.name, name, component))).To(Succeed())
			}
			run := f.start(test.name, test.change)
			var role rbacv1.Role
			f.Expect(f.get(&role, "capt-run-"+run.ID)).To(Succeed())
			allowed := map[string][]string{}
			for _, rule := range role.Rules {
				f.Expect(rule.Verbs).NotTo(ContainElement(Or(Equal("*"), Equal("list"), Equal("delete"))))
				if slices.Contains(rule.Resources, "secrets/capt") {
					// What the policy about reserved Secrets asks for.
					names := []string{run.ID, "workspace:" + test.name, "capt-run-" + run.ID}
					if test.state {
						names = append(names, "tfstate-default-"+test.name)
					}
					f.Expect(rule.Verbs).To(ConsistOf("store"))
					f.Expect(rule.ResourceNames).To(ConsistOf(names))
					continue
				}
				if len(rule.ResourceNames) == 0 {
					f.Expect(rule.Verbs).To(ConsistOf("create"))
					f.Expect(rule.Resources).To(ConsistOf("secrets"))
					allowed["create"] = rule.Verbs
				}
				for _, name := range rule.ResourceNames {
					allowed[name] = rule.Verbs
				}
			}
			f.Expect(allowed["create"] != nil).To(Equal(test.creates))
			f.Expect(allowed["tfstate-default-"+test.name] != nil).To(Equal(test.state))
			for _, name := range test.reads {
				f.Expect(allowed[name]).To(ConsistOf("get"))
			}
			expected := 1 + len(test.reads)
			if test.creates {
				expected++
			}
			if test.state {
				// The state and its lock.
				expected += 2
			}
			f.Expect(allowed).To(HaveLen(expected), "and nothing else")
			for name := range test.stored {
				f.Expect(allowed[name] != nil).To(Equal(slices.Contains(test.reads, name)), name)
			}
		})
	}
}

func TestPod_meetsTheRestrictedPodSecurityStandard(t *testing.T) {
	f := newFixture(t)
	var namespace corev1.Namespace
	f.Expect(env.Client.Get(f.ctx, client.ObjectKey{Name: f.namespace}, &namespace)).To(Succeed())
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	f.Expect(env.Client.Update(f.ctx, &namespace)).To(Succeed())
	f.start("restricted")
	created := f.job("capt-run-restricted-r1")
	spec := created.Spec.Template.Spec

	unrestricted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "unrestricted"}, Spec: *spec.DeepCopy()}
	unrestricted.Spec.Containers[0].SecurityContext = nil
	f.Eventually(func() bool {
		return apierrors.IsForbidden(env.Client.Create(f.ctx, unrestricted.DeepCopy(), client.DryRunAll))
	}).Should(BeTrue(), "the standard is enforced")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "restricted"}, Spec: spec}
	f.Expect(env.Client.Create(f.ctx, pod)).To(Succeed())
	f.Expect(*spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
}

func TestExecutor_needsOnlyTheManagerRole(t *testing.T) {
	f := newFixture(t)
	workspace := f.workspace("rights")
	run := f.run(workspace)
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning))
	f.Expect(f.executor.Explain(f.ctx, run)).To(BeEmpty())
	f.Expect(f.executor.Stop(f.ctx, run, true)).To(Succeed())
	f.Expect(f.executor.Remove(f.ctx, workspace)).To(Succeed())
	f.Expect(f.executor.Forget(f.ctx, run)).To(Succeed())
}
