package job_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
)

// as returns a client with the rights of a run's account.
func (w *world) as(run terraform.Run) client.Client {
	w.t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":capt-run-" + run.ID,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + w.namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

func TestAccess_isToTheRunAndItsStateOnly(t *testing.T) {
	w := newWorld(t)
	mine, other := w.run(w.workspace("mine")), w.run(w.workspace("other"))
	w.Expect(w.executor.Start(w.ctx, mine)).To(Succeed())
	w.Expect(w.executor.Start(w.ctx, other)).To(Succeed())
	me := w.as(mine)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.namespace, Name: name} }
	get := func(obj client.Object, name string) error {
		return me.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, obj)
	}
	// What the authorizer knows is a moment behind.
	w.Eventually(func() error { return get(&corev1.Secret{}, "capt-run-mine-r1") }, "10s").Should(Succeed())
	w.Expect(get(&corev1.Secret{}, "tfstate-default-mine")).To(Succeed())
	w.Expect(get(&coordinationv1.Lease{}, "lock-tfstate-default-mine")).To(Succeed())
	w.Expect(me.Create(w.ctx, &corev1.Secret{ObjectMeta: named("capt-snapshot-mine-1-0")})).To(Succeed())

	for what, err := range map[string]error{
		"another run":                get(&corev1.Secret{}, "capt-run-other-r1"),
		"another state":              get(&corev1.Secret{}, "tfstate-default-other"),
		"another lock":               get(&coordinationv1.Lease{}, "lock-tfstate-default-other"),
		"what it has created itself": get(&corev1.Secret{}, "capt-snapshot-mine-1-0"),
		"all Secrets":                me.List(w.ctx, &corev1.SecretList{}, client.InNamespace(w.namespace)),
		"all Leases":                 me.List(w.ctx, &coordinationv1.LeaseList{}, client.InNamespace(w.namespace)),
		"changing another state":     me.Update(w.ctx, &corev1.Secret{ObjectMeta: named("tfstate-default-other")}),
		"deleting its run":           me.Delete(w.ctx, &corev1.Secret{ObjectMeta: named("capt-run-mine-r1")}),
		"deleting its state":         me.Delete(w.ctx, &corev1.Secret{ObjectMeta: named("tfstate-default-mine")}),
		"locks of other names":       me.Create(w.ctx, &coordinationv1.Lease{ObjectMeta: named("mine")}),
		"Jobs":                       me.Create(w.ctx, &batchv1.Job{ObjectMeta: named("mine")}),
		"more rights":                me.Create(w.ctx, &rbacv1.Role{ObjectMeta: named("mine")}),
	} {
		w.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
}

func TestAccess_fitsTheOperation(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*terraform.Request)
		// reads are Secrets beyond run and state.
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
			reads: []string{"capt-plan-1-0", "capt-plan-1-1"}, creates: true, state: true,
		},
		{
			name: "missing", change: func(r *terraform.Request) {
				r.Operation, r.Snapshot = terraform.OperationRestoreState, "snapshot-x-3"
			},
			reads: []string{"capt-snapshot-x-3-0"}, creates: true, state: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.Expect(env.Client.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "capt-plan-1-0", Annotations: map[string]string{record.ChunksAnnotation: "2"},
			}})).To(Succeed())
			run := w.run(w.workspace(test.name), test.change)
			w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
			var role rbacv1.Role
			w.Expect(w.get(&role, "capt-run-"+run.ID)).To(Succeed())
			allowed := map[string][]string{}
			for _, rule := range role.Rules {
				w.Expect(rule.Verbs).NotTo(ContainElement(Or(Equal("*"), Equal("list"), Equal("delete"))))
				if len(rule.ResourceNames) == 0 {
					w.Expect(rule.Verbs).To(ConsistOf("create"))
					w.Expect(rule.Resources).To(ConsistOf("secrets"))
					allowed["create"] = rule.Verbs
				}
				for _, name := range rule.ResourceNames {
					allowed[name] = rule.Verbs
				}
			}
			w.Expect(allowed["create"] != nil).To(Equal(test.creates))
			w.Expect(allowed["tfstate-default-"+test.name] != nil).To(Equal(test.state))
			for _, name := range test.reads {
				w.Expect(allowed[name]).To(ConsistOf("get"))
			}
		})
	}
}

func TestPod_isAcceptedWhereOnlyRestrictedPodsAre(t *testing.T) {
	w := newWorld(t)
	var namespace corev1.Namespace
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Name: w.namespace}, &namespace)).To(Succeed())
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	w.Expect(env.Client.Update(w.ctx, &namespace)).To(Succeed())
	run := w.run(w.workspace("restricted"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	var made batchv1.Job
	w.Expect(w.get(&made, "capt-run-restricted-r1")).To(Succeed())
	spec := made.Spec.Template.Spec

	careless := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "careless"}, Spec: *spec.DeepCopy()}
	careless.Spec.Containers[0].SecurityContext = nil
	w.Expect(apierrors.IsForbidden(env.Client.Create(w.ctx, careless))).To(BeTrue(), "the standard is enforced")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "restricted"}, Spec: spec}
	w.Expect(env.Client.Create(w.ctx, pod)).To(Succeed())
	w.Expect(*spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
}

func TestExecutor_needsNoMoreThanTheManagersRole(t *testing.T) {
	w := newWorld(t)
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	w.Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	w.Expect(yaml.UnmarshalStrict(text, role)).To(Succeed())
	w.Expect(env.Client.Create(w.ctx, role)).To(Succeed())
	w.Expect(env.Client.Create(w.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}},
	})).To(Succeed())
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "manager"}
	manager, err := client.New(config, client.Options{Scheme: env.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	executor := job.New(job.Options{Client: manager, Reader: manager, Image: "example.com/runner:v1"})

	workspace := w.workspace("rights")
	run := w.run(workspace)
	w.Eventually(func() error { return executor.Start(w.ctx, run) }, "10s").Should(Succeed())
	w.Expect(executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessRunning))
	w.Expect(executor.Explain(w.ctx, run)).To(BeEmpty())
	w.Expect(executor.Stop(w.ctx, run)).To(Succeed())
	w.Expect(executor.Remove(w.ctx, workspace)).To(Succeed())
	w.Expect(executor.Forget(w.ctx, run)).To(Succeed())
}
