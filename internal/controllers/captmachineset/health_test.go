package captmachineset

import (
	"cmp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// setProblem sets the problem of a machine's node, as the machine's controller does.
func setProblem(t *testing.T, m *infrav1.CAPTMachine, reason string, since time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
		m.Status.NodeProblem = &infrav1.NodeProblem{Reason: reason, Since: metav1.NewTime(time.Now().Add(-since))}
		g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
	}).Should(Succeed())
}

func TestSet_replacesUnhealthyMachines(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3, func(s *infrav1.CAPTMachineSet) {
		s.Spec.HealthCheck = &infrav1.HealthCheck{NodeUnhealthyTimeout: &metav1.Duration{Duration: 30 * time.Second}}
	})
	found := waitForMachines(t, set.Namespace, 3)
	tester(t).WaitForCondition(set, infrav1.MachinesHealthyCondition, metav1.ConditionTrue, infrav1.MachinesHealthyCondition)

	// The timeout ends a few seconds later, without an event.
	setProblem(t, found[0], infrav1.NodeGoneReason, 27*time.Second)
	tester(t).WaitUntilGone(found[0], "the machine should be replaced after the timeout")
	g.Expect(waitForMachines(t, set.Namespace, 3)).NotTo(ContainElement(HaveField("UID", found[0].UID)))

	setProblem(t, found[1], infrav1.ProviderIDChangedReason, 0)
	tester(t).WaitUntilGone(found[1], "a machine whose instance was replaced should be replaced at once")
}

// node returns a node of a machine whose readiness changed some time ago.
func node(m *infrav1.CAPTMachine, ready corev1.ConditionStatus, ago time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + m.Name}, Spec: corev1.NodeSpec{ProviderID: "aws:///" + m.Name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago)),
		}}},
	}
}

// The status of a machine is as old as its last reconcile, and the nodes of a cluster can
// have a common problem.
func TestConfirmProblems(t *testing.T) {
	sick := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "sick", UID: "1"}, Spec: infrav1.CAPTMachineSpec{ProviderID: "aws:///sick"}}
	other := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	third := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "third"}}
	const yes, no = corev1.ConditionTrue, corev1.ConditionUnknown
	for name, c := range map[string]struct {
		problem string
		nodes   []client.Object
		err     error
		raised  bool
		replace bool
		reason  string
	}{
		"not ready":             {nodes: []client.Object{node(sick, no, time.Hour), node(other, yes, time.Hour)}, replace: true},
		"works again":           {nodes: []client.Object{node(sick, yes, time.Minute), node(other, yes, time.Hour)}},
		"failed again just now": {nodes: []client.Object{node(sick, no, time.Minute), node(other, yes, time.Hour)}},
		"is gone":               {nodes: []client.Object{node(other, yes, time.Hour)}, replace: true},
		"has joined":            {problem: infrav1.WaitingForNodeReason, nodes: []client.Object{node(sick, no, time.Hour), node(other, yes, time.Hour)}},
		"never joined":          {problem: infrav1.WaitingForNodeReason, nodes: []client.Object{node(other, yes, time.Hour)}, replace: true},
		"another instance":      {problem: infrav1.ProviderIDChangedReason, nodes: []client.Object{node(sick, yes, time.Hour)}, replace: true},
		"no node is ready":      {nodes: []client.Object{node(sick, no, time.Hour), node(other, no, time.Hour)}, reason: infrav1.TooManyUnhealthyReason},
		"few are ready":         {nodes: []client.Object{node(sick, no, time.Hour), node(other, no, time.Hour), node(third, yes, time.Hour)}, replace: true},
		"few, raised limit":     {raised: true, nodes: []client.Object{node(sick, no, time.Hour), node(other, no, time.Hour), node(third, yes, time.Hour)}, reason: infrav1.TooManyUnhealthyReason},
		"unreachable":           {err: clustercache.ErrClusterNotConnected, reason: infrav1.WorkloadClusterUnreachableReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var workload clusters
			if c.err != nil {
				workload.byNamespace.Store("team", c.err)
			} else {
				workload.byNamespace.Store("team", fake.NewClientBuilder().WithObjects(c.nodes...).Build())
			}
			s := &scope{set: setIn("team", 1), machines: []*infrav1.CAPTMachine{sick}, now: time.Now()}
			m := machines.Machine{Name: "sick", UID: "1", Problem: cmp.Or(c.problem, infrav1.NodeNotReadyReason), ProblemSince: s.now.Add(-time.Hour)}
			s.set.Spec.HealthCheck = &infrav1.HealthCheck{}
			got, err := (&Reconciler{Clusters: &workload}).confirmProblems(t.Context(), s, machines.Health{Unhealthy: []machines.Machine{m}, Replace: []machines.Machine{m}, Raised: c.raised})
			if c.reason != "" {
				waiting, ok := fault.AsWaiting(err)
				g.Expect(ok).To(BeTrue(), "%v", err)
				g.Expect(waiting.Reason).To(Equal(c.reason))
				g.Expect(waiting.RetryAfter).To(Equal(recheck))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(got) > 0).To(Equal(c.replace))
		})
	}
}

// A deployment has one limit for all its sets.
func TestSet_countsMachinesOfTheDeployment(t *testing.T) {
	g := NewWithT(t)
	owner := metav1.OwnerReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTMachineDeployment", Name: "workers", UID: "0f14d0ab-9605-4a62-a9e4-5ed26688389b", Controller: new(true),
	}
	named := func(name string) func(*infrav1.CAPTMachineSet) {
		return func(s *infrav1.CAPTMachineSet) {
			s.Name, s.OwnerReferences = name, []metav1.OwnerReference{owner}
			s.Spec.HealthCheck = &infrav1.HealthCheck{}
			s.Spec.Selector.MatchLabels["pool"], s.Spec.Template.ObjectMeta.Labels["pool"] = name, name
		}
	}
	first := newSet(t, 1, named("one"))
	found := waitForMachines(t, first.Namespace, 1)
	setProblem(t, found[0], infrav1.NodeNotReadyReason, time.Minute)
	second := create(t, setIn(first.Namespace, 1, named("two")))
	waitForMachines(t, first.Namespace, 2)
	for _, m := range list(t, first.Namespace) {
		if m.UID != found[0].UID {
			setProblem(t, m, infrav1.NodeNotReadyReason, time.Hour)
		}
	}
	tester(t).WaitForCondition(second, infrav1.MachinesHealthyCondition, metav1.ConditionFalse, infrav1.TooManyUnhealthyReason, "2 machines have a problem")
	// The condition of the first set does not show whether it has seen the second machine.
	settle(t)
	g.Expect(list(t, first.Namespace)).To(HaveLen(2))
}

func TestSet_replacesNothingIfTooManyMachinesAreUnhealthy(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3)
	found := waitForMachines(t, set.Namespace, 3)
	setProblem(t, found[0], infrav1.NodeNotReadyReason, time.Hour)
	tester(t).WaitForCondition(set, infrav1.MachinesHealthyCondition, metav1.ConditionFalse, infrav1.HealthCheckOffReason, found[0].Name, "spec.healthCheck")
	setProblem(t, found[1], infrav1.NodeNotReadyReason, time.Minute)
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.HealthCheck = &infrav1.HealthCheck{} })
	tester(t).WaitForCondition(set, infrav1.MachinesHealthyCondition, metav1.ConditionFalse, infrav1.TooManyUnhealthyReason, found[0].Name, "maxUnhealthy")
	g.Expect(list(t, set.Namespace)).To(HaveLen(3))
	g.Expect(list(t, set.Namespace)).To(ContainElement(HaveField("UID", found[0].UID)))
}
