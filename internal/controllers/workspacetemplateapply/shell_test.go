package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

func newShellOperation(id string) *infrav1.WorkspaceOperation {
	return newOperation(id, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationShell, Shell: &infrav1.ShellOptions{ID: id, Host: "laptop", Reason: "incident 17"}})
}

func TestShell_holdsRunsUntilItIsClosed(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Recorder: recorder}
	s := newScope("hello")
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Shell).To(BeNil())

	ask(s, newShellOperation("shell-1"))
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring(`eve has shell shell-1 with the state on laptop since 2026`)))
	g.Expect(s.Apply.Status.Shell).To(And(HaveField("By", "eve"), HaveField("Reason", "incident 17")))
	err := r.build().execution.Start(t.Context(), s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.ShellOpenReason))
	g.Expect(err).To(MatchError(ContainSubstring("captctl unlock")))

	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "it is recorded once")
	s.Requests.Operations = nil
	s.Now = s.Now.Add(time.Minute)
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring("eve closed shell shell-1")))
	g.Expect(s.Apply.Status.Shell.ClosedAt.Time).To(Equal(s.Now))
	g.Expect(history.ShellFault(s.Apply)).To(Succeed())
}

func TestShell_keepsTheLatestOnes(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Recorder: events.NewFakeRecorder(100)}
	s := newScope("hello")
	for i := range history.MaxPastShells + 3 {
		s.Now = s.Now.Add(time.Hour)
		s.Requests.Operations = []*infrav1.WorkspaceOperation{newShellOperation(fmt.Sprintf("shell-%d", i))}
		g.Expect(r.shell(t.Context(), s)).To(Succeed())
		if i == 0 {
			// It is replaced before it is closed.
			continue
		}
		s.Requests.Operations = nil
		s.Now = s.Now.Add(time.Minute)
		g.Expect(r.shell(t.Context(), s)).To(Succeed())
		if i == 1 {
			g.Expect(s.Apply.Status.PastShells).To(ConsistOf(And(HaveField("ID", "shell-0"), HaveField("ClosedAt.Time", s.Apply.Status.Shell.OpenedAt.Time))))
		}
	}
	g.Expect(s.Apply.Status.Shell.ID).To(Equal("shell-12"))
	g.Expect(s.Apply.Status.PastShells).To(HaveLen(history.MaxPastShells))
	g.Expect(s.Apply.Status.PastShells[0]).To(And(HaveField("ID", "shell-11"), HaveField("ClosedAt", Not(BeNil()))))
}
