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

// end gives a Job the status that it has when its pod has ended.
func (w *world) end(name string) {
	w.t.Helper()
	var j batchv1.Job
	w.Expect(w.get(&j, name)).To(Succeed())
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	j.Status.StartTime, j.Status.Failed = &now, 1
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded"},
	}
	w.Expect(env.Client.Status().Update(w.ctx, &j)).To(Succeed())
}

// pod makes a pod on a node that does not exist.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "unreachable", Containers: []corev1.Container{{Name: "runner", Image: "example.com/runner:v1"}}},
	}
	w.Expect(env.Client.Create(w.ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	w.Expect(env.Client.Status().Update(w.ctx, pod)).To(Succeed())
	return pod
}

func TestObserve_trustsNothingButThePod(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("node"))
	observe := func() terraform.Liveness {
		t.Helper()
		liveness, err := w.executor.Observe(w.ctx, run)
		w.Expect(err).NotTo(HaveOccurred())
		return liveness
	}
	w.Expect(observe()).To(Equal(terraform.LivenessPending))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(observe()).To(Equal(terraform.LivenessRunning))
	pod := w.pod("runner")
	w.claim(run, pod)
	w.Expect(observe()).To(Equal(terraform.LivenessRunning))

	w.end("capt-run-node-r1")
	w.Expect(observe()).To(Equal(terraform.LivenessRunning), "the Job gave its pod up, but nobody saw it end")
	w.Expect(env.Client.Delete(w.ctx, pod)).To(Succeed())
	w.Expect(env.Client.Get(w.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	w.Expect(pod.DeletionTimestamp.IsZero()).To(BeFalse())
	w.Expect(observe()).To(Equal(terraform.LivenessRunning), "a node that does not answer proves nothing")
	w.Expect(w.executor.Forget(w.ctx, run)).To(Succeed())
	w.Expect(observe()).To(Equal(terraform.LivenessRunning), "not even without the Job")

	w.Expect(env.Client.Delete(w.ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	w.Expect(observe()).To(Equal(terraform.LivenessGone))
	w.pod("runner")
	w.Expect(observe()).To(Equal(terraform.LivenessGone), "another pod of that name is not it")
}

func TestObserve_seesThePodEnd(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			run := w.run(w.workspace("phase"))
			pod := w.pod("runner")
			w.claim(run, pod)
			w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessRunning))
			pod.Status.Phase = phase
			w.Expect(env.Client.Status().Update(w.ctx, pod)).To(Succeed())
			w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessGone))
		})
	}
}

func TestObserve_seesARunnerThatDiedBeforeItBegan(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("stillborn"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.end("capt-run-stillborn-r1")
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessGone))
	w.Expect(w.executor.Explain(w.ctx, run)).To(ContainSubstring("BackoffLimitExceeded"))
}

func TestExplain_namesWhatThePodWaitsFor(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.workspace("why"))
	w.Expect(w.executor.Explain(w.ctx, run)).To(BeEmpty())
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Expect(w.executor.Explain(w.ctx, run)).To(BeEmpty())

	var j batchv1.Job
	w.Expect(w.get(&j, "capt-run-why-r1")).To(Succeed())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: w.namespace, Name: "event"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: w.namespace, Name: j.Name, UID: j.UID, APIVersion: "batch/v1"},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota: compute",
	}
	w.Expect(env.Client.Create(w.ctx, event)).To(Succeed())
	w.Expect(w.executor.Explain(w.ctx, run)).To(Equal("Job capt-run-why-r1: FailedCreate: exceeded quota: compute"))

	pod := w.pod("why")
	pod.Labels = map[string]string{batchv1.ControllerUidLabel: string(j.UID)}
	w.Expect(env.Client.Update(w.ctx, pod)).To(Succeed())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	w.Expect(env.Client.Status().Update(w.ctx, pod)).To(Succeed())
	w.Expect(w.executor.Explain(w.ctx, run)).To(Equal("Pod why: Unschedulable: 0/3 nodes are available"))
}

func TestExplainPod(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	late := metav1.NewTime(now.Add(-time.Hour))
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
			name: "lost node", pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &late}, Spec: corev1.PodSpec{NodeName: "node-1"}},
			want: "Pod pod was to end by 2026-11-15T11:00:00Z, and its node node-1 does not say that it did; if the node is gone for good, delete the Node",
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
