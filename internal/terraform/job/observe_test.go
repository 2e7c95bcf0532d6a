package job_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
)

// end sets the status of a Job whose pod has failed.
func (f *fixture) end(name string) {
	f.t.Helper()
	var j batchv1.Job
	f.Expect(f.get(&j, name)).To(Succeed())
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	j.Status.StartTime, j.Status.Failed = &now, 1
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded"},
	}
	f.Expect(env.Client.Status().Update(f.ctx, &j)).To(Succeed())
}

// pod creates a running pod on a node that does not exist, as the Job controller does for a
// run.
func (f *fixture) pod(name string, runs ...terraform.Run) *corev1.Pod {
	f.t.Helper()
	labels := map[string]string{}
	for _, run := range runs {
		labels[batchv1.JobNameLabel] = "capt-run-" + run.ID
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "unreachable", Containers: []corev1.Container{{Name: "runner", Image: "example.com/runner:v1"}}},
	}
	f.Expect(env.Client.Create(f.ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	f.Expect(env.Client.Status().Update(f.ctx, pod)).To(Succeed())
	return pod
}

func TestObserve_trustsOnlyThePod(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("node"))
	observe := func() terraform.Liveness {
		t.Helper()
		liveness, err := f.executor.Observe(f.ctx, run)
		f.Expect(err).NotTo(HaveOccurred())
		return liveness
	}
	f.Expect(observe()).To(Equal(terraform.LivenessPending))
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(observe()).To(Equal(terraform.LivenessRunning))
	pod := f.pod("runner", run)
	f.claim(run, pod)
	f.Expect(observe()).To(Equal(terraform.LivenessRunning))

	f.end("capt-run-node-r1")
	f.Expect(observe()).To(Equal(terraform.LivenessRunning), "the Job has failed, but its pod may be running")
	f.Expect(env.Client.Delete(f.ctx, pod)).To(Succeed())
	f.Expect(env.Client.Get(f.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	f.Expect(pod.DeletionTimestamp.IsZero()).To(BeFalse())
	f.Expect(observe()).To(Equal(terraform.LivenessRunning), "the pod of an unreachable node may be running")
	f.Expect(f.executor.Forget(f.ctx, run)).To(Succeed())
	f.Expect(observe()).To(Equal(terraform.LivenessRunning), "the deletion of the Job does not prove the end of its pod")

	f.Expect(env.Client.Delete(f.ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	f.Expect(observe()).To(Equal(terraform.LivenessGone))
	f.pod("runner")
	f.Expect(observe()).To(Equal(terraform.LivenessGone), "it is another pod of the same name")
}

// A module can change what its run says about its pod.
func TestObserve_trustsNoPodOfOthers(t *testing.T) {
	f := newFixture(t)
	elsewhere := *f
	elsewhere.namespace = env.Namespace(t)
	for name, claimed := range map[string]*corev1.Pod{
		"bystander": f.pod("bystander"), "elsewhere": elsewhere.pod("elsewhere"), "nameless": {},
	} {
		t.Run(name, func(t *testing.T) {
			run := f.start(name)
			runner := f.pod(name+"-runner", run)
			f.claim(run, claimed)
			f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning), "its own pod is running")
			f.Expect(env.Client.Delete(f.ctx, runner, client.GracePeriodSeconds(0))).To(Succeed())
			f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessGone), "a pod of others does not hold the slot")
		})
	}
}

func TestObserve_detectsTheEndOfThePod(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			f := newFixture(t)
			run := f.run(f.workspace("phase"))
			pod := f.pod("runner", run)
			f.claim(run, pod)
			f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning))
			pod.Status.Phase = phase
			f.Expect(env.Client.Status().Update(f.ctx, pod)).To(Succeed())
			f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessGone))
		})
	}
}

func TestObserve_detectsARunnerThatFailedBeforeItsClaim(t *testing.T) {
	f := newFixture(t)
	run := f.start("unclaimed")
	f.end("capt-run-unclaimed-r1")
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessGone))
	f.Expect(f.executor.Explain(f.ctx, run)).To(ContainSubstring("BackoffLimitExceeded"))
}

func TestExplain_describesWhatThePodWaitsFor(t *testing.T) {
	f := newFixture(t)
	run := f.run(f.workspace("why"))
	f.Expect(f.executor.Explain(f.ctx, run)).To(BeEmpty())
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	f.Expect(f.executor.Explain(f.ctx, run)).To(BeEmpty())

	j := f.job("capt-run-why-r1")
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: f.namespace, Name: "event"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: f.namespace, Name: j.Name, UID: j.UID, APIVersion: "batch/v1"},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota: compute",
	}
	f.Expect(env.Client.Create(f.ctx, event)).To(Succeed())
	f.Expect(f.executor.Explain(f.ctx, run)).To(Equal("Job capt-run-why-r1: FailedCreate: exceeded quota: compute"))

	pod := f.pod("why")
	pod.Labels = map[string]string{batchv1.ControllerUidLabel: string(j.UID)}
	f.Expect(env.Client.Update(f.ctx, pod)).To(Succeed())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	f.Expect(env.Client.Status().Update(f.ctx, pod)).To(Succeed())
	f.Expect(f.executor.Explain(f.ctx, run)).To(Equal("Pod why: Unschedulable: 0/3 nodes are available"))
}

func TestExplainPod(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	overdue := metav1.NewTime(now.Add(-time.Hour))
	for _, test := range []struct {
		name string
		pod  corev1.Pod
		want string
	}{
		{name: "nothing", pod: corev1.Pod{}, want: ""},
		{name: "starting", pod: waiting("ContainerCreating", ""), want: ""},
		{name: "image", pod: waiting("ErrImagePull", "no such\n  image"), want: "Pod pod: ErrImagePull: no such image"},
		{
			name: "out of memory",
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			}}}},
			want: "Pod pod: OOMKilled, exit code 137",
		},
		{
			name: "evicted", pod: corev1.Pod{Status: corev1.PodStatus{Reason: "Evicted", Message: "disk pressure"}},
			want: "Pod pod: Evicted: disk pressure",
		},
		{
			name: "lost node", pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &overdue}, Spec: corev1.PodSpec{NodeName: "node-1"}},
			want: "Pod pod should have terminated by 2026-11-15T11:00:00Z, but its node node-1 did not confirm it. If the node is permanently lost, delete the Node",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.pod.Name = "pod"
			NewWithT(t).Expect(job.ExplainPod(&test.pod, now)).To(Equal(test.want))
		})
	}
}

func waiting(reason, message string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}}
}
