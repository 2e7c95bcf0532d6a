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

func TestShell_holdsRunsUntilItIsClosed(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Recorder: recorder}
	s := newScope("hello")
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Shell).To(BeNil())

	s.Apply.Annotations[infrav1.ShellAnnotation] = `{"id":"shell-1","uid":"u","host":"laptop","reason":"incident 17"}`
	s.Apply.Annotations[infrav1.ShellByAnnotation] = "shell-1 ada"
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring(`ada has shell shell-1 with the state on laptop since 2026`)))
	g.Expect(s.Apply.Status.Shell).To(HaveField("By", "ada"))
	err := r.build().execution.Start(t.Context(), s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.ShellOpenReason))
	g.Expect(err).To(MatchError(ContainSubstring("captctl unlock")))

	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "it is recorded once")
	delete(s.Apply.Annotations, infrav1.ShellAnnotation)
	s.Now = s.Now.Add(time.Minute)
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring("ada closed shell shell-1")))
	g.Expect(s.Apply.Status.Shell.ClosedAt.Time).To(Equal(s.Now))
	g.Expect(history.ShellFault(s.Apply)).To(Succeed())
}

func TestShell_ignoresWhatIsNotOne(t *testing.T) {
	for _, text := range []string{"", "x", `{"id":"hello-r1","uid":"u"}`, `{"id":"shell-1","uid":"that of another workspace"}`} {
		g := NewWithT(t)
		s := newScope("hello")
		s.Apply.Annotations[infrav1.ShellAnnotation] = text
		g.Expect((&Reconciler{}).shell(t.Context(), s)).To(Succeed())
		g.Expect(s.Apply.Status.Shell).To(BeNil(), text)
	}
}

func TestShell_keepsTheLatestOnes(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Recorder: events.NewFakeRecorder(100)}
	s := newScope("hello")
	for i := range history.MaxPastShells + 3 {
		s.Now = s.Now.Add(time.Hour)
		s.Apply.Annotations[infrav1.ShellAnnotation] = fmt.Sprintf(`{"id":"shell-%d","uid":"u"}`, i)
		g.Expect(r.shell(t.Context(), s)).To(Succeed())
		if i == 0 {
			// It is replaced before it is closed.
			continue
		}
		delete(s.Apply.Annotations, infrav1.ShellAnnotation)
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
