package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

func TestShell_holdsRunsUntilItIsClosed(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Recorder: recorder}
	s := newScope("hello")
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(s.apply.Status.Shell).To(BeNil())

	s.apply.Annotations[infrav1.ShellAnnotation] = `{"id":"shell-1","uid":"u","host":"laptop","reason":"incident 17"}`
	s.apply.Annotations[infrav1.ShellByAnnotation] = "shell-1 ada"
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring(`ada has shell shell-1 with the state on laptop since 2026`)))
	g.Expect(s.apply.Status.Shell).To(HaveField("By", "ada"))
	err := r.build().execution.start(t.Context(), s, decision{operation: terraform.OperationPlanAndApply})
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.ShellOpenReason))
	g.Expect(err).To(MatchError(ContainSubstring("captctl unlock")))

	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "it is recorded once")
	delete(s.apply.Annotations, infrav1.ShellAnnotation)
	s.now = s.now.Add(time.Minute)
	g.Expect(r.shell(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(Receive(ContainSubstring("ada closed shell shell-1")))
	g.Expect(s.apply.Status.Shell.ClosedAt.Time).To(Equal(s.now))
	g.Expect(shellFault(s.apply)).To(Succeed())
}

func TestShell_ignoresWhatIsNotOne(t *testing.T) {
	for _, text := range []string{"", "x", `{"id":"hello-r1","uid":"u"}`, `{"id":"shell-1","uid":"that of another workspace"}`} {
		g := NewWithT(t)
		s := newScope("hello")
		s.apply.Annotations[infrav1.ShellAnnotation] = text
		g.Expect((&Reconciler{}).shell(t.Context(), s)).To(Succeed())
		g.Expect(s.apply.Status.Shell).To(BeNil(), text)
	}
}

func TestShell_keepsTheLatestOnes(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Recorder: events.NewFakeRecorder(100)}
	s := newScope("hello")
	for i := range maxPastShells + 3 {
		s.now = s.now.Add(time.Hour)
		s.apply.Annotations[infrav1.ShellAnnotation] = fmt.Sprintf(`{"id":"shell-%d","uid":"u"}`, i)
		g.Expect(r.shell(t.Context(), s)).To(Succeed())
		if i == 0 {
			// It is replaced before it is closed.
			continue
		}
		delete(s.apply.Annotations, infrav1.ShellAnnotation)
		s.now = s.now.Add(time.Minute)
		g.Expect(r.shell(t.Context(), s)).To(Succeed())
		if i == 1 {
			g.Expect(s.apply.Status.PastShells).To(ConsistOf(And(HaveField("ID", "shell-0"), HaveField("ClosedAt.Time", s.apply.Status.Shell.OpenedAt.Time))))
		}
	}
	g.Expect(s.apply.Status.Shell.ID).To(Equal("shell-12"))
	g.Expect(s.apply.Status.PastShells).To(HaveLen(maxPastShells))
	g.Expect(s.apply.Status.PastShells[0]).To(And(HaveField("ID", "shell-11"), HaveField("ClosedAt", Not(BeNil()))))
}
