package captmachine

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
)

// pod creates a pod that the API server considers running on a node. There is no
// kubelet, so an evicted pod without a grace period is deleted at once.
func (h *harness) pod(name string, node *corev1.Node, change ...func(*corev1.Pod)) *corev1.Pod {
	h.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	h.Create(pod)
	h.setRunning(pod)
	return pod
}

func (h *harness) setRunning(pod *corev1.Pod) {
	h.T.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	h.Expect(env.Client.Status().Patch(h.T.Context(), pod, client.MergeFrom(before))).To(Succeed())
	h.T.Cleanup(func() { _ = env.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
}

// budget prevents the eviction of a pod.
func (h *harness) budget(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	h.T.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: pod.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	h.Create(budget)
	h.WaitFor(budget, "Kubernetes should count the pods", func(g Gomega) {
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		g.Expect(budget.Status.CurrentHealthy).To(Equal(int32(1)))
	})
	return budget
}

// daemon lets Kubernetes create a DaemonSet pod for a node, and binds it.
func (h *harness) daemon(node *corev1.Node) *corev1.Pod {
	h.T.Helper()
	labels := map[string]string{"app": "daemon"}
	h.Create(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"test": h.Namespace},
				Containers:   []corev1.Container{{Name: "main", Image: "example.com/main"}},
			},
		}},
	})
	var pods corev1.PodList
	h.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(h.T.Context(), &pods, client.InNamespace(h.Namespace), client.MatchingLabels(labels))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
	}).Should(Succeed(), "the DaemonSet should have a pod for the node")
	pod := &pods.Items[0]
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	h.Expect(env.Client.SubResource("binding").Create(h.T.Context(), pod, binding)).To(Succeed())
	h.Get(pod)
	h.setRunning(pod)
	return pod
}

func (h *harness) label(node *corev1.Node) {
	h.T.Helper()
	before := node.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, "test", h.Namespace)
	h.Expect(env.Client.Patch(h.T.Context(), node, client.MergeFrom(before))).To(Succeed())
}

func TestMachine_drainsNodeBeforeDeletion(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	node := h.join("worker")
	h.label(node)
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := h.pod("kept", node)
	budget := h.budget(kept)
	plain := h.pod("plain", node)
	scratch := h.pod("scratch", node, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	mirror := h.pod("mirror", node, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	skipped := h.pod("skipped", node, func(p *corev1.Pod) { p.Labels["cluster.x-k8s.io/drain"] = "skip" })
	daemon := h.daemon(node)

	h.Delete(machine)
	h.WaitForCondition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason,
		h.Namespace+"/kept cannot be evicted: The disruption budget kept needs 1 healthy pods and has 1 currently")
	h.WaitUntilGone(plain, "it can be evicted")
	h.WaitUntilGone(scratch, "emptyDir volumes do not prevent the eviction")
	for _, pod := range []*corev1.Pod{mirror, skipped, daemon} {
		h.Get(pod, "%s should not be evicted", pod.Name)
		h.Expect(pod.DeletionTimestamp).To(BeNil(), "%s should not be evicted", pod.Name)
	}
	h.WaitFor(node, "the node should be cordoned", func(g Gomega) { g.Expect(node.Spec.Unschedulable).To(BeTrue()) })
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, "Deleting", "Drained", "kept")
	h.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h.Workspace("worker")), h.Workspace("worker"))).To(Succeed(), "the instance should exist while its node is drained")

	h.Delete(budget)
	h.WaitUntilGone(kept, "the budget does not exist anymore")
	h.WaitUntilGone(machine, "the node is drained")
	h.WaitUntilGone(h.Workspace("worker"), "the instance should be destroyed")
	h.WaitUntilGone(node, "the Node should be deleted with its instance")
}

// hold prevents the destruction of a machine's workspace, so that the test can read
// the conditions during the deletion.
func (h *harness) hold(name string) *infrav1.WorkspaceTemplateApply {
	h.T.Helper()
	apply := h.Workspace(name)
	h.Update(apply, func() { metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.HoldAnnotation, "") })
	return apply
}

func (h *harness) release(apply *infrav1.WorkspaceTemplateApply) {
	h.T.Helper()
	h.Update(apply, func() { delete(apply.Annotations, nodestest.HoldAnnotation) })
}

func TestMachine_abortsDrainAfterTimeout(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker", func(m *infrav1.CAPTMachine) {
		m.Spec.Drain = &infrav1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Second}}
	})
	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := h.pod("kept", node)
	h.budget(kept)
	apply := h.hold("worker")

	h.Delete(machine)
	h.WaitForCondition(machine, infrav1.DrainedCondition, metav1.ConditionTrue, infrav1.DrainTimedOutReason, "The drain was aborted after 1s", "kept")
	h.WaitForCondition(machine, infrav1.DestroyedCondition, metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason)
	h.release(apply)
	h.WaitUntilGone(machine, "the drain was aborted")
	h.WaitUntilGone(node, "the instance is destroyed")
}

func TestMachine_doesNotWaitForPodsOnUnreachableNode(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	// There is no kubelet to terminate the pod, so it stays when it is deleted.
	pod := h.pod("lost", node, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) })

	h.Delete(machine)
	h.WaitForCondition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason, "terminating: "+h.Namespace+"/lost")
	h.Get(node)
	h.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionUnknown)).To(Succeed())
	h.WaitUntilGone(machine, "the kubelet cannot report the end of the pod")
	h.Get(pod)
}

func TestMachine_skipsDrainOnRequest(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := h.pod("kept", node)
	h.budget(kept)
	apply := h.hold("worker")

	h.Delete(machine)
	h.WaitForCondition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason)
	h.Update(machine, func() { machine.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeSkip} })
	h.WaitForCondition(machine, infrav1.DrainedCondition, metav1.ConditionTrue, infrav1.DrainSkippedReason, "spec.drain.mode is Skip")
	h.release(apply)
	h.WaitUntilGone(machine, "nothing else should block the deletion")
	h.Get(kept, "the pod should not be evicted")
}

func TestMachine_doesNotCallClusterBeingDeleted(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.budget(h.pod("kept", node))

	// The workload cluster is unreachable and the Cluster is being deleted.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "production-kubeconfig"}}
	h.Delete(secret)
	h.Delete(h.Cluster.Cluster)
	h.Delete(machine)
	h.WaitUntilGone(machine, "the workload cluster should not be called")
	h.Get(node, "the Node should stay")
}
