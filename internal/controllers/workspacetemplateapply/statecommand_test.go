package workspacetemplateapply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

func TestDecide_executesEachStateCommandOnce(t *testing.T) {
	command := func(s *situation) { s.command = &terraform.StateCommand{ID: "2", Command: terraform.StateList} }
	for _, e := range []expectation{
		{name: "up to date", situation: upToDate(command), want: terraform.OperationStateCommand},
		{name: "before a change", situation: upToDate(command, changed), want: terraform.OperationStateCommand},
		{name: "after a run that failed", situation: upToDate(command, changed, failedForGood), want: terraform.OperationStateCommand},
		{name: "after a restore", situation: upToDate(command, func(s *situation) { s.restore = "x" }), want: terraform.OperationRestoreState},
		{name: "handled", situation: upToDate(command, func(s *situation) { s.handledCommand = "2" })},
		{name: "another one was handled", situation: upToDate(command, func(s *situation) { s.handledCommand = "1" }), want: terraform.OperationStateCommand},
		{name: "invalid", situation: upToDate(func(s *situation) { s.invalidCommand = "It is invalid" }), reason: infrav1.InvalidStateCommandReason, stalled: true, contains: []string{"It is invalid"}},
	} {
		t.Run(e.name, e.run)
	}
}

func TestRecordResult_ofAStateCommand(t *testing.T) {
	failed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}
	written := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, Phases: []terraform.PhaseTime{{Name: terraform.PhaseWritingState}}}
	tests := []struct {
		name, command string
		result        terraform.Result
		plansAgain    bool
	}{
		{"a list", `{"id":"1","command":"list"}`, success, false},
		{"a list that failed", `{"id":"1","command":"list"}`, failed, false},
		{"a list that was lost", `{"id":"1","command":"list"}`, terraform.Result{Outcome: outcomeLost}, false},
		{"a removal", `{"id":"1","command":"rm","args":["a.b"]}`, success, true},
		{"a removal that failed before it changed the state", `{"id":"1","command":"rm","args":["a.b"]}`, failed, false},
		{"a removal that may have changed the state", `{"id":"1","command":"rm","args":["a.b"]}`, written, true},
		{"a removal that was lost", `{"id":"1","command":"rm","args":["a.b"]}`, terraform.Result{Outcome: outcomeLost}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.apply.Annotations[infrav1.StateCommandAnnotation] = tt.command
			s.apply.Annotations[infrav1.RunRequestedAnnotation] = "later"
			s.addRun(g, terraform.OperationStateCommand, tt.result)
			s.recordAll(g)
			g.Expect(s.apply.Status.HandledStateCommand).To(Equal("1"), "it is not repeated")
			g.Expect(s.apply.Status.Failure).To(BeNil(), "the workspace has not failed")
			g.Expect(s.apply.Status.AppliedInputs == "").To(Equal(tt.plansAgain))
			g.Expect(s.situation().requested()).To(BeTrue(), "the command does not fulfil another request")
		})
	}
}

func TestRecordResult_doesNotRepeatACommandAfterTheStatusIsLost(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.apply.Annotations[infrav1.StateCommandAnnotation] = `{"id":"1","command":"rm","args":["a.b"]}`
	s.addRun(g, terraform.OperationStateCommand, success)
	s.recordAll(g)
	for range 12 {
		s.addRun(g, terraform.OperationPlanAndApply, success)
		s.recordAll(g)
	}
	surplus, err := s.surplusRuns()
	g.Expect(err).NotTo(HaveOccurred())
	s.runs = s.runs[:len(s.runs)-len(surplus)]
	s.apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	s.recordAll(g)
	g.Expect(s.apply.Status.HandledStateCommand).To(Equal("1"))
	g.Expect(decide(s.situation())).To(Equal(noRun))
}

func TestChangesNothing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(changesNothing(terraform.OperationCheckDrift, "hash")).To(BeTrue())
	g.Expect(changesNothing(terraform.OperationStateCommand, "state list 1")).To(BeTrue())
	g.Expect(changesNothing(terraform.OperationStateCommand, "state push 1")).To(BeFalse())
	g.Expect(changesNothing(terraform.OperationStateCommand, "")).To(BeFalse())
	g.Expect(changesNothing(terraform.OperationMoveState, "move 1")).To(BeFalse())
}

func TestUntilPruned_deletesTransfersInTime(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	g.Expect(untilPruned(s)).To(BeZero())
	s.transferExpiry = s.now.Add(time.Hour)
	g.Expect(untilPruned(s)).To(Equal(time.Hour))
}
