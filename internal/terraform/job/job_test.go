package job_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestStart_goesOnWhereACrashLeftIt(t *testing.T) {
	w := newWorld(t)
	workspace := w.workspace("crash")
	run := w.run(workspace)
	attempts := 0
	for ; w.failing(attempts).Start(w.ctx, run) != nil; attempts++ {
		w.Expect(attempts).To(BeNumerically("<", 10), "it ends some time")
		w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessPending), "the Job comes last")
	}
	w.Expect(attempts).To(Equal(6), "state, lock, account, role, binding and Job are made one by one")
	for _, obj := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		w.Expect(w.get(obj, "capt-run-crash-r1")).To(Succeed())
		w.Expect(obj.GetLabels()).To(HaveKeyWithValue("capt.appthrust.io/run", "crash-r1"))
		w.Expect(obj.GetLabels()).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	}
	var started batchv1.Job
	w.Expect(w.get(&started, "capt-run-crash-r1")).To(Succeed())
	w.Expect(string(metav1.GetControllerOf(&started).UID)).To(Equal(workspace.UID), "the controller watches what it owns")
	w.Expect(w.get(&corev1.Secret{}, "tfstate-default-crash")).To(Succeed())
	w.Expect(w.get(&coordinationv1.Lease{}, "lock-tfstate-default-crash")).To(Succeed())
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessRunning))
}

func TestStart_startsNothingThatHasBegun(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("begun"))
	w.claim(run, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "gone", UID: "gone"}})
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(apierrors.IsNotFound(w.get(&batchv1.Job{}, "capt-run-begun-r1"))).To(BeTrue())
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessGone))
}

func TestStart_waitsForWhatAnEarlierWorkspaceLeft(t *testing.T) {
	w := newWorld(t)
	workspace := w.workspace("again")
	old := record.LocalMeta(terraform.WorkspaceRef{Namespace: w.namespace, Name: "again", UID: "earlier"}, record.ComponentRun, "again-r1")
	old.Name = "capt-run-again-r1"
	left := &batchv1.Job{ObjectMeta: *old.DeepCopy(), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}},
	}}}}
	w.Expect(env.Client.Create(w.ctx, left)).To(Succeed())
	old.OwnerReferences = nil
	w.Expect(env.Client.Create(w.ctx, &rbacv1.Role{ObjectMeta: old, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}})).To(Succeed())
	run := w.run(workspace)
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessPending), "it is another run's Job")
	w.Expect(w.executor.Start(w.ctx, run)).To(MatchError(ContainSubstring("belongs to somebody else")))
	w.Expect(env.Client.Delete(w.ctx, left, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	var role rbacv1.Role
	w.Expect(w.get(&role, "capt-run-again-r1")).To(Succeed())
	w.Expect(role.Rules).NotTo(ContainElement(HaveField("Verbs", ContainElement("*"))), "rights are this run's")
}

func TestStart_usesTheGivenAccountAndPod(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("given"), func(r *terraform.Request) { r.Grace = time.Hour })
	run.Pod = terraform.PodSettings{
		Image: "example.com/other:v2", ServiceAccountName: "cloud", NodeSelector: map[string]string{"disk": "fast"}, TimeoutSeconds: 60,
		Resources: []byte(`{"limits":{"memory":"2Gi"}}`), Tolerations: []byte(`[{"key":"runs","operator":"Exists"}]`),
	}
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(apierrors.IsNotFound(w.get(&corev1.ServiceAccount{}, "capt-run-given-r1"))).To(BeTrue())
	var binding rbacv1.RoleBinding
	w.Expect(w.get(&binding, "capt-run-given-r1")).To(Succeed())
	w.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: w.namespace, Name: "cloud"}))
	var made batchv1.Job
	w.Expect(w.get(&made, "capt-run-given-r1")).To(Succeed())
	spec := made.Spec.Template.Spec
	w.Expect(spec.ServiceAccountName).To(Equal("cloud"))
	w.Expect(spec.NodeSelector).To(HaveKeyWithValue("disk", "fast"))
	w.Expect(spec.Tolerations).To(ConsistOf(corev1.Toleration{Key: "runs", Operator: corev1.TolerationOpExists}))
	w.Expect(spec.Containers[0].Image).To(Equal("example.com/other:v2"))
	w.Expect(spec.Containers[0].Resources.Limits.Memory().String()).To(Equal("2Gi"))
	w.Expect(*spec.TerminationGracePeriodSeconds).To(BeNumerically(">", 3600))
	w.Expect(*made.Spec.ActiveDeadlineSeconds).To(BeNumerically(">", 60+3600))
	w.Expect(*made.Spec.BackoffLimit).To(BeZero())
}

func TestStart_takesLongNames(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("abcdefgh.", 20) + "x"
	run := w.run(w.workspace(long), func(r *terraform.Request) {
		r.RunID = record.Shorten(long, 45) + "-r123456789"
		r.Backend.SecretSuffix = "long"
	})
	run.ID = record.Shorten(long, 45) + "-r123456789"
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessRunning))
	w.Expect(w.executor.Forget(w.ctx, run)).To(Succeed())
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessPending))
}

func TestStart_saysThatThereIsNoImage(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("bare"))
	err := job.New(job.Options{Client: env.Client, Reader: env.Client}).Start(w.ctx, run)
	w.Expect(err).To(MatchError(ContainSubstring("--runner-image")))
}

func TestStop_endsARunThatHasNotBegun(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("early"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	for range 2 {
		w.Expect(w.executor.Stop(w.ctx, run)).To(Succeed())
	}
	result, err := record.Result(w.secret(run))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.Outcome).To(Equal(terraform.OutcomeInterrupted))
	w.Expect(w.secret(run).Data).NotTo(HaveKey("request"), "no runner can take it up any more")
	var stopping batchv1.Job
	w.Expect(w.get(&stopping, "capt-run-early-r1")).To(Succeed(), "the Job stays until its pod is gone")
	w.Expect(stopping.DeletionTimestamp.IsZero()).To(BeFalse())
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed(), "what has ended is not started")
}

func TestGrant_outlivesTheWorkspace(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("foreground"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		w.Expect(w.get(obj, "capt-run-foreground-r1")).To(Succeed())
		w.Expect(obj.GetOwnerReferences()).To(BeEmpty(), "a run has to save its state, however its workspace is deleted")
	}
	bystander := w.run(w.workspace("bystander"))
	w.Expect(w.executor.Start(w.ctx, bystander)).To(Succeed())
	for range 2 {
		w.Expect(w.executor.Remove(w.ctx, terraform.WorkspaceRef{Namespace: w.namespace, Name: "foreground"})).To(Succeed())
	}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		w.Expect(apierrors.IsNotFound(w.get(obj, "capt-run-foreground-r1"))).To(BeTrue(), "%T", obj)
		w.Expect(w.get(obj, "capt-run-bystander-r1")).To(Succeed())
	}
}

func TestForget_leavesOnlyTheRun(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("old"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	for range 2 {
		w.Expect(w.executor.Forget(w.ctx, run)).To(Succeed())
	}
	for _, obj := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		w.Expect(apierrors.IsNotFound(w.get(obj, "capt-run-old-r1"))).To(BeTrue(), "%T", obj)
	}
	w.Expect(w.secret(run).Data).To(HaveKey("request"))
	w.Expect(w.get(&corev1.Secret{}, "tfstate-default-old")).To(Succeed(), "the state is the workspace's")
}
