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

// pod makes a pod that runs on a node as far as the API server knows: there is
// no kubelet, so it ends as soon as it is told to.
func (w *world) pod(name string, node *corev1.Node, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	w.create(pod)
	w.running(pod)
	return pod
}

func (w *world) running(pod *corev1.Pod) {
	w.t.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.Expect(env.Client.Status().Patch(w.t.Context(), pod, client.MergeFrom(before))).To(Succeed())
	w.t.Cleanup(func() { _ = env.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
}

// budget keeps a pod from being evicted.
func (w *world) budget(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: pod.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	w.create(budget)
	w.eventually(budget, "Kubernetes has counted the pods", func(g Gomega) {
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		g.Expect(budget.Status.CurrentHealthy).To(Equal(int32(1)))
	})
	return budget
}

// daemon has Kubernetes make a pod of a DaemonSet for a node, and binds it.
func (w *world) daemon(node *corev1.Node) *corev1.Pod {
	w.t.Helper()
	labels := map[string]string{"app": "daemon"}
	w.create(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"test": w.namespace},
				Containers:   []corev1.Container{{Name: "main", Image: "example.com/main"}},
			},
		}},
	})
	var pods corev1.PodList
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels(labels))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
	}, patience, tick).Should(Succeed(), "the DaemonSet has a pod for the node")
	pod := &pods.Items[0]
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	w.Expect(env.Client.SubResource("binding").Create(w.t.Context(), pod, binding)).To(Succeed())
	w.Expect(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	w.running(pod)
	return pod
}

func (w *world) label(node *corev1.Node) {
	w.t.Helper()
	before := node.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, "test", w.namespace)
	w.Expect(env.Client.Patch(w.t.Context(), node, client.MergeFrom(before))).To(Succeed())
}

func TestMachine_drainsItsNodeBeforeItGoes(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker")
	node := w.join("worker")
	w.label(node)
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := w.pod("kept", node)
	budget := w.budget(kept)
	plain := w.pod("plain", node)
	scratch := w.pod("scratch", node, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	mirror := w.pod("mirror", node, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	skipped := w.pod("skipped", node, func(p *corev1.Pod) { p.Labels["cluster.x-k8s.io/drain"] = "skip" })
	daemon := w.daemon(node)

	w.delete(machine)
	w.condition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason,
		w.namespace+"/kept cannot be evicted: The disruption budget kept needs 1 healthy pods and has 1 currently")
	w.gone(plain, "what can be evicted is")
	w.gone(scratch, "data in emptyDir are no reason to stay")
	for _, pod := range []*corev1.Pod{mirror, skipped, daemon} {
		w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed(), "%s is left alone", pod.Name)
		w.Expect(pod.DeletionTimestamp).To(BeNil(), "%s is left alone", pod.Name)
	}
	w.eventually(node, "nothing new comes", func(g Gomega) { g.Expect(node.Spec.Unschedulable).To(BeTrue()) })
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, "Deleting", "Drained", "kept")
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.apply("worker")), w.apply("worker"))).To(Succeed(), "the instance stays while its node is drained")

	w.delete(budget)
	w.gone(kept, "nothing keeps it any more")
	w.gone(machine, "the node is empty")
	w.gone(w.apply("worker"), "the instance is destroyed")
	w.gone(node, "the object of the node goes with its instance")
}

// held keeps the workspace of a machine from being destroyed, so that what the
// machine says while it goes can be read.
func (w *world) held(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	apply := w.apply(name)
	w.eventually(apply, "the workspace is held", func(g Gomega) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.HoldAnnotation, "")
		g.Expect(env.Client.Update(w.t.Context(), apply)).To(Succeed())
	})
	return apply
}

func (w *world) release(apply *infrav1.WorkspaceTemplateApply) {
	w.t.Helper()
	w.eventually(apply, "the workspace is released", func(g Gomega) {
		delete(apply.Annotations, nodestest.HoldAnnotation)
		g.Expect(env.Client.Update(w.t.Context(), apply)).To(Succeed())
	})
}

func TestMachine_goesWithoutADrainThatTakesTooLong(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker", func(m *infrav1.CAPTMachine) {
		m.Spec.Drain = &infrav1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Second}}
	})
	node := w.join("worker")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := w.pod("kept", node)
	w.budget(kept)
	apply := w.held("worker")

	w.delete(machine)
	w.condition(machine, infrav1.DrainedCondition, metav1.ConditionTrue, infrav1.DrainTimedOutReason, "The drain took longer than 1s", "kept")
	w.condition(machine, infrav1.DestroyedCondition, metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason)
	w.release(apply)
	w.gone(machine, "the drain was given up")
	w.gone(node, "the instance is gone")
}

func TestMachine_doesNotWaitForPodsOnALostNode(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker")
	node := w.join("worker")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	// Nobody is there to end the pod, so it stays when it is deleted.
	pod := w.pod("lost", node, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) })

	w.delete(machine)
	w.condition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason, "leaving: "+w.namespace+"/lost")
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node)).To(Succeed())
	w.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionUnknown)).To(Succeed())
	w.gone(machine, "nobody can tell of the pod's end")
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
}

func TestMachine_skipsTheDrainOnRequest(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker")
	node := w.join("worker")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	kept := w.pod("kept", node)
	w.budget(kept)
	apply := w.held("worker")

	w.delete(machine)
	w.condition(machine, infrav1.DrainedCondition, metav1.ConditionFalse, infrav1.DrainingReason)
	w.eventually(machine, "a person gives the drain up", func(g Gomega) {
		machine.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeSkip}
		g.Expect(env.Client.Update(t.Context(), machine)).To(Succeed())
	})
	w.condition(machine, infrav1.DrainedCondition, metav1.ConditionTrue, infrav1.DrainSkippedReason, "spec.drain.mode is Skip")
	w.release(apply)
	w.gone(machine, "nothing else keeps it")
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept)).To(Succeed(), "the pod was left to die with its node")
}

func TestMachine_doesNotAskAClusterThatGoes(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker")
	node := w.join("worker")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	w.budget(w.pod("kept", node))

	// Nothing answers any more, and the Cluster goes.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "production-kubeconfig"}}
	w.delete(secret)
	w.delete(w.cluster.Cluster)
	w.delete(machine)
	w.gone(machine, "the cluster is not asked for anything")
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node)).To(Succeed(), "the node goes with its cluster")
}
