package captmachineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// setProblem sets the problem of a machine's node, as the machine's controller does.
func setProblem(t *testing.T, m *infrav1.CAPTMachine, reason string, since time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
		m.Status.NodeProblem = &infrav1.NodeProblem{Reason: reason, Since: metav1.NewTime(time.Now().Add(-since))}
		g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
	}, objecttest.Timeout, objecttest.Interval).Should(Succeed())
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

func TestSet_replacesNothingIfTooManyMachinesAreUnhealthy(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3)
	found := waitForMachines(t, set.Namespace, 3)
	setProblem(t, found[0], infrav1.NodeNotReadyReason, time.Hour)
	tester(t).WaitForCondition(set, infrav1.MachinesHealthyCondition, metav1.ConditionFalse, infrav1.HealthCheckOffReason, found[0].Name, "spec.healthCheck")
	setProblem(t, found[1], infrav1.NodeNotReadyReason, time.Minute)
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.HealthCheck = &infrav1.HealthCheck{} })
	tester(t).WaitForCondition(set, infrav1.MachinesHealthyCondition, metav1.ConditionFalse, infrav1.TooManyUnhealthyReason, found[0].Name, "maxUnhealthy")
	g.Consistently(func() int { return len(list(t, set.Namespace)) }, quiet, objecttest.Interval).Should(Equal(3))
	g.Expect(list(t, set.Namespace)).To(ContainElement(HaveField("UID", found[0].UID)))
}
