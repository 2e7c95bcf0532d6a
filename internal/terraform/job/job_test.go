package job_test

import (
	"context"
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
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestStart_continuesAfterACrash(t *testing.T) {
	f := newFixture(t)
	workspace := f.workspace("crash")
	run := f.run(workspace)
	attempts := 0
	for ; f.failing(attempts).Start(f.ctx, run) != nil; attempts++ {
		f.Expect(attempts).To(BeNumerically("<", 10), "Start must succeed eventually")
		f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessPending), "the Job is created last")
	}
	f.Expect(attempts).To(Equal(6), "state, lock, account, role, binding and Job are created one by one")
	for _, obj := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		f.Expect(f.get(obj, "capt-run-crash-r1")).To(Succeed())
		f.Expect(obj.GetLabels()).To(HaveKeyWithValue("capt.appthrust.io/run", "crash-r1"))
		f.Expect(obj.GetLabels()).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	}
	started := f.job("capt-run-crash-r1")
	f.Expect(string(metav1.GetControllerOf(started).UID)).To(Equal(workspace.UID), "the controller watches the objects that it owns")
	f.Expect(f.get(&corev1.Secret{}, "tfstate-default-crash")).To(Succeed())
	f.Expect(f.get(&coordinationv1.Lease{}, "lock-tfstate-default-crash")).To(Succeed())
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning))
}

func TestStart_doesNotReadAJustCreatedRun(t *testing.T) {
	f := newFixture(t)
	var request *terraform.Request
	run := f.run(f.workspace("new"), func(r *terraform.Request) { request = r })
	executor := job.New(job.Options{Client: f.manager().Client, Reader: f.unreadable(), Image: "example.com/runner:v1"})
	f.Expect(executor.Start(f.ctx, run)).To(MatchError(context.DeadlineExceeded))
	run.Request = request
	f.Expect(executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.get(&batchv1.Job{}, "capt-run-new-r1")).To(Succeed())
}

func TestStart_ignoresAClaimedRun(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("claimed"))
	f.claim(run, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "gone", UID: "gone"}})
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(apierrors.IsNotFound(f.get(&batchv1.Job{}, "capt-run-claimed-r1"))).To(BeTrue())
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessGone))
}

func TestStart_waitsForTheJobOfAnEarlierWorkspace(t *testing.T) {
	f := newFixture(t)
	workspace := f.workspace("again")
	old := record.LocalMeta(terraform.WorkspaceRef{Namespace: f.namespace, Name: "again", UID: "earlier"}, record.ComponentRun, "again-r1")
	old.Name = "capt-run-again-r1"
	leftover := &batchv1.Job{ObjectMeta: *old.DeepCopy(), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}},
	}}}}
	f.Expect(env.Client.Create(f.ctx, leftover)).To(Succeed())
	old.OwnerReferences = nil
	f.Expect(env.Client.Create(f.ctx, &rbacv1.Role{ObjectMeta: old, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}})).To(Succeed())
	run := f.run(workspace)
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessPending), "the Job is of another workspace")
	f.Expect(f.executor.Start(f.ctx, run)).To(MatchError(ContainSubstring("waiting for the deletion of the Job of an earlier workspace")))
	f.Expect(env.Client.Delete(f.ctx, leftover, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	var role rbacv1.Role
	f.Expect(f.get(&role, "capt-run-again-r1")).To(Succeed())
	f.Expect(role.Rules).NotTo(ContainElement(HaveField("Verbs", ContainElement("*"))), "the rules are those of this run")
}

func TestStart_usesThePodSettings(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("given"), func(r *terraform.Request) {
		r.Grace, r.Timeout = time.Hour, time.Minute
		r.Pod = terraform.PodSettings{
			Image: "example.com/other:v2", ServiceAccountName: "cloud", NodeSelector: map[string]string{"disk": "fast"},
			Resources: []byte(`{"limits":{"memory":"2Gi"}}`), Tolerations: []byte(`[{"key":"runs","operator":"Exists"}]`),
		}
	})
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.get(&corev1.ServiceAccount{}, "capt-run-given-r1")).To(Succeed())
	var binding rbacv1.RoleBinding
	f.Expect(f.get(&binding, "capt-run-given-r1")).To(Succeed())
	f.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: f.namespace, Name: "capt-run-given-r1"}), "other runs use the given account too")
	created := f.job("capt-run-given-r1")
	spec := created.Spec.Template.Spec
	f.Expect(spec.ServiceAccountName).To(Equal("cloud"))
	f.Expect(spec.NodeSelector).To(HaveKeyWithValue("disk", "fast"))
	f.Expect(spec.Tolerations).To(ConsistOf(corev1.Toleration{Key: "runs", Operator: corev1.TolerationOpExists}))
	f.Expect(spec.Containers[0].Image).To(Equal("example.com/other:v2"))
	f.Expect(spec.Containers[0].Resources.Limits.Memory().String()).To(Equal("2Gi"))
	f.Expect(*spec.TerminationGracePeriodSeconds).To(BeNumerically(">", 3600))
	f.Expect(*created.Spec.ActiveDeadlineSeconds).To(BeNumerically(">", 60+3600))
	f.Expect(*created.Spec.BackoffLimit).To(BeZero())
}

// A drained node lets an apply complete: the grace period of the pod is as long as the run may
// take, and so is its token, which the kubelet does not renew meanwhile.
func TestPod_hasTimeToCompleteAnApply(t *testing.T) {
	f := newFixture(t)
	f.start("drained", func(r *terraform.Request) { r.Timeout, r.Grace = time.Hour, 10*time.Minute })
	created := f.job("capt-run-drained-r1")
	spec := created.Spec.Template.Spec
	const longest = 2*60*60 + 10*60
	f.Expect(*spec.TerminationGracePeriodSeconds).To(BeNumerically(">", longest))
	f.Expect(*created.Spec.ActiveDeadlineSeconds).To(BeNumerically(">", longest))
	f.Expect(projected(spec)).To(ContainElement(HaveField("ServiceAccountToken.ExpirationSeconds", HaveValue(BeNumerically(">", *spec.TerminationGracePeriodSeconds)))))
	f.Expect(created.Spec.Template.Annotations).To(HaveKeyWithValue("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"))
	f.Expect(created.Spec.Template.Annotations).To(HaveKeyWithValue("karpenter.sh/do-not-disrupt", "true"))
}

// The runner cannot tell a cancel from a drained node by its signal.
func TestStop_saysThatTheRunIsCanceled(t *testing.T) {
	f := newFixture(t)
	run := f.start("canceled")
	f.claim(run, f.pod("runner", run))
	f.Expect(record.Interrupted(f.secret(run))).To(BeFalse())
	for range 2 {
		f.Expect(f.executor.Stop(f.ctx, run, true)).To(Succeed())
		f.Expect(record.Interrupted(f.secret(run))).To(BeTrue())
	}
}

func TestStart_acceptsLongNames(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("abcdefgh.", 20) + "x"
	run := f.run(f.workspace(long), func(r *terraform.Request) {
		r.RunID = record.Shorten(long, 45) + "-r123456789"
		r.Backend.SecretSuffix = "long"
	})
	run.ID = record.Shorten(long, 45) + "-r123456789"
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning))
	f.Expect(f.executor.Forget(f.ctx, run)).To(Succeed())
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessPending))
}

func TestStart_failsWithoutAnImage(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("bare"))
	err := job.New(job.Options{Client: f.manager().Client, Reader: f.manager().Client}).Start(f.ctx, run)
	f.Expect(err).To(MatchError(ContainSubstring("--runner-image")))
}

func TestStop_finishesAnUnclaimedRun(t *testing.T) {
	f := newFixture(t)
	run := f.start("early")
	for range 2 {
		f.Expect(f.executor.Stop(f.ctx, run, true)).To(Succeed())
	}
	result := f.result(run)
	f.Expect(result.Outcome).To(Equal(terraform.OutcomeInterrupted))
	f.Expect(f.secret(run).Data).NotTo(HaveKey("request"), "no runner can claim it")
	var stopping batchv1.Job
	f.Expect(f.get(&stopping, "capt-run-early-r1")).To(Succeed(), "the Job exists until its pod is deleted")
	f.Expect(stopping.DeletionTimestamp.IsZero()).To(BeFalse())
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed(), "a finished run is not started")
}

func TestExecutor_leavesTheRunOfTheNextWorkspace(t *testing.T) {
	f := newFixture(t)
	next := f.run(f.workspace("again"))
	late := next
	late.WorkspaceUID, late.Digest = "deleted", "another"
	f.Expect(f.executor.Start(f.ctx, late)).To(MatchError(ContainSubstring("not found")))
	f.Expect(f.executor.Stop(f.ctx, late, true)).To(Succeed())
	_, err := f.executor.Observe(f.ctx, late)
	f.Expect(err).To(MatchError(ContainSubstring("not found")))
	f.Expect(record.Finished(f.secret(next))).To(BeFalse())
	f.Expect(f.executor.Start(f.ctx, next)).To(Succeed())
}

func TestEnd_waitsForThePodOfARunWithoutARecord(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("deleted"))
	f.Expect(f.executor.End(f.ctx, run)).To(BeTrue(), "it was not started")
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.env.Client.Delete(f.ctx, f.secret(run))).To(Succeed())
	for range 2 {
		f.Expect(f.executor.End(f.ctx, run)).To(BeFalse())
	}
	var stopping batchv1.Job
	f.Expect(f.get(&stopping, "capt-run-deleted-r1")).To(Succeed(), "the Job exists until its pod is deleted")
	f.Expect(stopping.DeletionTimestamp.IsZero()).To(BeFalse())

	orphaned := f.run(f.workspace("orphaned"))
	pod := f.pod("orphaned")
	pod.Labels = map[string]string{batchv1.JobNameLabel: "capt-run-orphaned-r1"}
	f.Expect(f.env.Client.Update(f.ctx, pod)).To(Succeed())
	f.Expect(f.executor.End(f.ctx, orphaned)).To(BeFalse(), "the pod of a deleted Job still runs")
	pod.Status.Phase = corev1.PodFailed
	f.Expect(f.env.Client.Status().Update(f.ctx, pod)).To(Succeed())
	f.Expect(f.executor.End(f.ctx, orphaned)).To(BeTrue())

	ended := f.start("ended")
	f.end("capt-run-ended-r1")
	f.Expect(f.env.Client.Delete(f.ctx, f.secret(ended))).To(Succeed())
	f.Expect(f.executor.End(f.ctx, ended)).To(BeTrue())
	f.Expect(apierrors.IsNotFound(f.get(&corev1.ServiceAccount{}, "capt-run-ended-r1"))).To(BeTrue())
}

func TestGrant_survivesTheDeletionOfTheWorkspace(t *testing.T) {
	f := newFixture(t)
	workspace := f.workspace("foreground")
	run := f.run(workspace)
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		f.Expect(f.get(obj, "capt-run-foreground-r1")).To(Succeed())
		f.Expect(obj.GetOwnerReferences()).To(BeEmpty(), "a run must be able to save its state after a foreground deletion of its workspace")
	}
	f.start("bystander")
	for range 2 {
		f.Expect(f.executor.Remove(f.ctx, workspace)).To(Succeed())
	}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		f.Expect(apierrors.IsNotFound(f.get(obj, "capt-run-foreground-r1"))).To(BeTrue(), "%T", obj)
		f.Expect(f.get(obj, "capt-run-bystander-r1")).To(Succeed())
	}
}

// A manager that was suspended while it deleted a workspace continues when the next
// workspace of the name has a run with the same ID.
func TestForget_keepsTheRunOfTheNextWorkspace(t *testing.T) {
	f := newFixture(t)
	next := f.workspace("hello")
	run := f.run(next, func(r *terraform.Request) { r.Pod.ServiceAccountName = "default" })
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	old := run
	old.WorkspaceUID = "deleted"
	f.Expect(f.executor.Forget(f.ctx, old)).To(Succeed())
	f.Expect(f.executor.Remove(f.ctx, terraform.WorkspaceRef{Namespace: next.Namespace, Name: next.Name, UID: "deleted"})).To(Succeed())
	for _, object := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		f.Expect(f.get(object, "capt-run-hello-r1")).To(Succeed(), "%T", object)
		f.Expect(object.GetDeletionTimestamp()).To(BeNil())
	}
	f.Expect(f.get(&corev1.Secret{}, "capt-token-hello-r1")).To(Succeed())
	f.Expect(f.executor.End(f.ctx, old)).To(BeFalse(), "no other run may start beside it")

	f.Expect(f.executor.Remove(f.ctx, next)).To(Succeed())
	for _, object := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		f.Expect(apierrors.IsNotFound(f.get(object, "capt-run-hello-r1"))).To(BeTrue())
	}
}

// A service account that an earlier workspace of the name left may have tokens, and a
// manager that is late must not give its rules to the next run.
func TestStart_replacesTheAccountOfAnEarlierWorkspace(t *testing.T) {
	f := newFixture(t)
	workspace := f.workspace("hello")
	run := f.run(workspace)
	left := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: "capt-run-hello-r1", Annotations: map[string]string{"capt.appthrust.io/workspace-uid": "deleted"},
	}}
	f.Expect(f.env.Client.Create(f.ctx, left)).To(Succeed())
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	account := &corev1.ServiceAccount{}
	f.Expect(f.get(account, "capt-run-hello-r1")).To(Succeed())
	f.Expect(account.UID).NotTo(Equal(left.UID))
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	again := &corev1.ServiceAccount{}
	f.Expect(f.get(again, "capt-run-hello-r1")).To(Succeed())
	f.Expect(again.UID).To(Equal(account.UID), "its pod has a token of it")

	late := run
	late.WorkspaceUID, late.Digest = "deleted", "another"
	granter := access.Granter{Client: f.env.Client, Reader: f.env.Client}
	request := &terraform.Request{RunID: run.ID, Workspace: terraform.WorkspaceRef{Namespace: f.namespace, Name: "hello", UID: "deleted"}}
	f.Expect(granter.Grant(f.ctx, late, request)).To(MatchError(ContainSubstring("not found")))
	f.Expect(f.get(again, "capt-run-hello-r1")).To(Succeed())
	f.Expect(again.UID).To(Equal(account.UID))
}

// What replaced an object of a run stays if it is that of the next workspace of the name.
func TestForget_keepsObjectsOfTheNextWorkspace(t *testing.T) {
	f := newFixture(t)
	run := f.start("old")
	replaced := &rbacv1.Role{}
	f.Expect(f.get(replaced, "capt-run-old-r1")).To(Succeed())
	f.Expect(f.env.Client.Delete(f.ctx, replaced)).To(Succeed())
	f.Expect(f.env.Client.Create(f.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: "capt-run-old-r1", Annotations: map[string]string{"capt.appthrust.io/workspace-uid": "next"},
	}})).To(Succeed())
	f.Expect(f.executor.Forget(f.ctx, run)).To(Succeed())
	f.Expect(f.get(&rbacv1.Role{}, "capt-run-old-r1")).To(Succeed(), "that of another workspace")
	f.Expect(apierrors.IsNotFound(f.get(&corev1.ServiceAccount{}, "capt-run-old-r1"))).To(BeTrue())
}

func TestForget_keepsTheRunAndTheState(t *testing.T) {
	f := newFixture(t)
	run := f.start("old")
	for range 2 {
		f.Expect(f.executor.Forget(f.ctx, run)).To(Succeed())
	}
	for _, obj := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		f.Expect(apierrors.IsNotFound(f.get(obj, "capt-run-old-r1"))).To(BeTrue(), "%T", obj)
	}
	f.Expect(f.secret(run).Data).To(HaveKey("request"))
	f.Expect(f.get(&corev1.Secret{}, "tfstate-default-old")).To(Succeed(), "the state belongs to the workspace")
}
