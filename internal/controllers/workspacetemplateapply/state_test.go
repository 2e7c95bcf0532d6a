package workspacetemplateapply

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// runWith returns a run with annotations.
func runWith(annotations map[string]string) *runs.Run {
	return &runs.Run{ID: "hello-r1", Number: 1, Secret: newSecret(metav1.ObjectMeta{Annotations: annotations})}
}

func onS3() map[string]string {
	return map[string]string{record.BackendAnnotation: "s3", record.ConfigurationAnnotation: "c", record.StateAnnotation: "null"}
}

func TestRecordState(t *testing.T) {
	info := terraform.StateInfo{Lineage: "l", Serial: 7, Resources: 3}
	applying := []terraform.PhaseTime{{Name: terraform.PhaseApplying}}
	before := &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Serial: 5, Resources: 9, Confirmation: infrav1.StateConfirmed}
	s3 := func(serial int64, resources int32, confirmation infrav1.StateConfirmation) *infrav1.StateStatus {
		return &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Serial: serial, Resources: resources, Confirmation: confirmation}
	}
	for name, tt := range map[string]struct {
		before   *infrav1.StateStatus
		recorded *terraform.StateInfo
		result   terraform.Result
		want     *infrav1.StateStatus
	}{
		"success":                           {nil, nil, terraform.Result{Outcome: terraform.OutcomeSucceeded, State: info}, s3(7, 3, infrav1.StateConfirmed)},
		"failure that read the state":       {before, nil, terraform.Result{Outcome: terraform.OutcomeFailed, State: info}, s3(7, 3, infrav1.StateConfirmed)},
		"failure before it read the state":  {before, nil, terraform.Result{Outcome: terraform.OutcomeFailed}, before},
		"first failure before the state":    {nil, nil, terraform.Result{Outcome: terraform.OutcomeFailed}, nil},
		"failure that could not read it":    {before, nil, terraform.Result{Outcome: terraform.OutcomeFailed, State: info, StateUncertain: true, Phases: applying}, s3(7, 9, infrav1.StateUnconfirmed)},
		"lost before it recorded the state": {before, nil, terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlanAndApply}, before},
		"lost with a known state":           {before, &terraform.StateInfo{Lineage: "l", Serial: 5, Resources: 9}, terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlanAndApply}, s3(5, 9, infrav1.StateUnconfirmed)},
		"lost after it recorded the state":  {nil, &terraform.StateInfo{Lineage: "l", Serial: 1}, terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlanAndApply}, s3(1, 0, infrav1.StateUnconfirmed)},
		"lost while planning":               {before, nil, terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlan}, before},
		"destroyed":                         {before, nil, terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 8}}, s3(8, 0, infrav1.StateConfirmed)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Status.State = tt.before.DeepCopy()
			annotations := onS3()
			annotations[record.StateAnnotation] = string(runs.MustJSON(tt.before))
			run := runWith(annotations)
			if tt.recorded != nil {
				patch, err := record.StatePatch(*tt.recorded)
				g.Expect(err).NotTo(HaveOccurred())
				mergeInto(g, run.Secret, patch)
			}
			s.RecordState(run, &tt.result)
			g.Expect(s.Apply.Status.State).To(Equal(tt.want))
		})
	}
}

func TestRecordState_restoresALostStatus(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Serial: 5, Resources: 9, Confirmation: infrav1.StateConfirmed}
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	known := s.Apply.Status.State
	run := &runs.Run{ID: "hello-r9", Number: 9, Secret: newSecret(s.RunMeta(request, infrav1.ExecutorJob))}

	s.Apply.Status.State = nil
	s.RecordState(run, &terraform.Result{Outcome: terraform.OutcomeFailed})
	g.Expect(s.Apply.Status.State).To(Equal(known), "clusterctl does not move the status, and older runs are pruned")
}

func TestRecordState_namesTheSecret(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := runWith(map[string]string{record.BackendAnnotation: terraform.BackendKubernetes})
	s.RecordState(run, &terraform.Result{State: terraform.StateInfo{Lineage: "l", Serial: 1}})
	g.Expect(s.Apply.Status.State.SecretName).To(Equal("tfstate-default-hello-ws"))
}

func TestUsesKubernetes(t *testing.T) {
	kubernetes, s3 := runWith(map[string]string{record.BackendAnnotation: terraform.BackendKubernetes}), runWith(onS3())
	for name, tt := range map[string]struct {
		state *infrav1.StateStatus
		runs  []*runs.Run
		want  bool
	}{
		"no run":                 {nil, nil, true},
		"a run that failed":      {nil, []*runs.Run{kubernetes}, true},
		"a run elsewhere":        {nil, []*runs.Run{s3, kubernetes}, false},
		"a state":                {&infrav1.StateStatus{Backend: "kubernetes"}, []*runs.Run{kubernetes}, true},
		"a state elsewhere":      {&infrav1.StateStatus{Backend: "s3"}, []*runs.Run{kubernetes}, false},
		"a state from elsewhere": {&infrav1.StateStatus{Backend: "kubernetes"}, []*runs.Run{kubernetes, s3}, true},
	} {
		NewWithT(t).Expect(runs.UsesKubernetes(tt.state, tt.runs)).To(Equal(tt.want), name)
	}
}

func TestLostRun(t *testing.T) {
	lost, failed, applied := terraform.Result{Outcome: runs.OutcomeLost}, terraform.Result{Outcome: terraform.OutcomeFailed}, terraform.Result{Outcome: terraform.OutcomeNoChanges}
	for name, tt := range map[string]struct {
		// results are the oldest first.
		results []terraform.Result
		want    string
	}{
		"none":                 {nil, ""},
		"applied":              {[]terraform.Result{applied}, ""},
		"lost":                 {[]terraform.Result{applied, lost}, "hello-r2"},
		"failed after a loss":  {[]terraform.Result{lost, failed, failed}, "hello-r1"},
		"applied after a loss": {[]terraform.Result{lost, applied, failed}, ""},
		"the newest of two":    {[]terraform.Result{lost, lost, failed}, "hello-r2"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			for _, result := range tt.results {
				addRun(g, s, terraform.OperationPlanAndApply, result)
			}
			run := s.LostRun()
			if tt.want == "" {
				g.Expect(run).To(BeNil())
				return
			}
			g.Expect(run.ID).To(Equal(tt.want))
		})
	}
}

func TestIsSuccessor(t *testing.T) {
	known := func(change func(*infrav1.StateStatus)) *infrav1.StateStatus {
		s := &infrav1.StateStatus{Lineage: "l", Serial: 5, Resources: 3, Confirmation: infrav1.StateConfirmed}
		change(s)
		return s
	}
	same := func(*infrav1.StateStatus) {}
	for name, tt := range map[string]struct {
		version terraform.StateInfo
		known   *infrav1.StateStatus
		want    bool
	}{
		"a later version":      {terraform.StateInfo{Lineage: "l", Serial: 6}, known(same), true},
		"an earlier version":   {terraform.StateInfo{Lineage: "l", Serial: 4}, known(same), false},
		"no state":             {terraform.StateInfo{}, known(same), false},
		"another state":        {terraform.StateInfo{Lineage: "x", Serial: 9}, known(same), false},
		"an unconfirmed state": {terraform.StateInfo{Lineage: "l", Serial: 6}, known(func(s *infrav1.StateStatus) { s.Confirmation = infrav1.StateUnconfirmed }), false},
	} {
		NewWithT(t).Expect(isSuccessor(tt.version, tt.known)).To(Equal(tt.want), name)
	}
}

// TestRecordState_afterAReplacementFailed fails commands that replace the state. What
// they found in the backend, or left there, is not the state of the workspace.
func TestRecordState_afterAReplacementFailed(t *testing.T) {
	before := &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Serial: 40, Resources: 50, Confirmation: infrav1.StateConfirmed}
	unconfirmed := before.DeepCopy()
	unconfirmed.Confirmation = infrav1.StateUnconfirmed
	writing := []terraform.PhaseTime{{Name: terraform.PhaseWritingState}}
	foreign, empty := terraform.StateInfo{Lineage: "other", Serial: 30, Resources: 200}, terraform.StateInfo{Lineage: "new", Serial: 1}
	for name, tt := range map[string]struct {
		operation terraform.Operation
		result    terraform.Result
		want      *infrav1.StateStatus
	}{
		"a refused push":               {terraform.OperationStateCommand, terraform.Result{Outcome: terraform.OutcomeFailed, State: foreign}, before},
		"a push that failed half-way":  {terraform.OperationStateCommand, terraform.Result{Outcome: terraform.OutcomeFailed, State: empty, Phases: writing}, unconfirmed},
		"a restore that failed":        {terraform.OperationRestoreState, terraform.Result{Outcome: terraform.OutcomeFailed, State: foreign}, unconfirmed},
		"a snapshot that is missing":   {terraform.OperationRestoreState, terraform.Result{Outcome: terraform.OutcomeFailed, State: foreign, SnapshotMissing: true}, before},
		"a push that was lost":         {terraform.OperationStateCommand, terraform.Result{Outcome: runs.OutcomeLost}, unconfirmed},
		"a move that failed":           {terraform.OperationMoveState, terraform.Result{Outcome: terraform.OutcomeFailed, State: foreign, Phases: writing}, before},
		"a restore that never started": {terraform.OperationRestoreState, terraform.Result{Outcome: runs.OutcomeLost, Unclaimed: true}, before},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Status.State = before.DeepCopy()
			annotations := onS3()
			annotations[record.StateAnnotation] = string(runs.MustJSON(before))
			annotations[record.OperationAnnotation] = string(tt.operation)
			tt.result.Operation = tt.operation
			s.RecordState(runWith(annotations), &tt.result)
			g.Expect(s.Apply.Status.State).To(Equal(tt.want))
			known := terraform.KnownState{StateInfo: runs.StateInfo(s.Apply.Status.State), Unconfirmed: s.Apply.Status.State.Confirmation == infrav1.StateUnconfirmed}
			g.Expect(known.Compare(foreign, false)).To(Equal(terraform.StateForeign))
			g.Expect(known.Compare(empty, false)).To(Equal(terraform.StateMissing))
		})
	}
}

// TestStartState records that the state may change before a run reports anything.
func TestStartState(t *testing.T) {
	known := &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Serial: 4, Resources: 2, Confirmation: infrav1.StateConfirmed}
	unconfirmed := known.DeepCopy()
	unconfirmed.Confirmation = infrav1.StateUnconfirmed
	for name, tt := range map[string]struct {
		operation terraform.Operation
		before    *infrav1.StateStatus
		want      *infrav1.StateStatus
	}{
		"the first run": {terraform.OperationPlanAndApply, nil, &infrav1.StateStatus{Backend: "http", Confirmation: infrav1.StateUnconfirmed}},
		"a known state": {terraform.OperationDestroy, known, unconfirmed},
		"a plan":        {terraform.OperationPlan, known, known},
		"a drift check": {terraform.OperationCheckDrift, nil, nil},
	} {
		s := newScope("hello")
		s.Apply.Status.State = tt.before.DeepCopy()
		s.StartState(&terraform.Request{Operation: tt.operation, Backend: terraform.Backend{Type: "http"}})
		NewWithT(t).Expect(s.Apply.Status.State).To(Equal(tt.want), name)
	}
}

// The template is recorded before a run can create resources with it, and stays if the run fails.
// A run that changes nothing does not record it.
func TestState_recordsTheTemplateOfARun(t *testing.T) {
	g := NewWithT(t)
	s := newScope("a")
	use := func(name string) *infrav1.ObjectReference {
		s.Sources.Template = &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}}
		return &infrav1.ObjectReference{Namespace: "platform", Name: name}
	}
	first := use("first")
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	s.StartState(&terraform.Request{Operation: terraform.OperationPlanAndApply, Backend: s.Inputs.Request.Backend})
	g.Expect(s.Apply.Status.State.TemplateRef).To(Equal(first))
	endRun(g, s, run, terraform.Result{Outcome: terraform.OutcomeFailed, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 2}})
	s.RecordState(run, resultOf(g, run))
	g.Expect(s.Apply.Status.State).To(And(HaveField("TemplateRef", first), HaveField("Resources", int32(2))))

	use("planned")
	run = addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 2}})
	s.StartState(&terraform.Request{Operation: terraform.OperationPlan, Backend: s.Inputs.Request.Backend})
	s.RecordState(run, resultOf(g, run))
	g.Expect(s.Apply.Status.State.TemplateRef).To(Equal(first))
}

func resultOf(g Gomega, run *runs.Run) *terraform.Result {
	result, err := record.Result(run.Secret)
	g.Expect(err).NotTo(HaveOccurred())
	return result
}

func TestNeedsState(t *testing.T) {
	used := &infrav1.StateStatus{Backend: "http", Resources: 2, Confirmation: infrav1.StateConfirmed}
	unconfirmed := &infrav1.StateStatus{Backend: "http", Confirmation: infrav1.StateUnconfirmed}
	for name, tt := range map[string]struct {
		state   *infrav1.StateStatus
		problem terraform.StateProblem
		want    bool
	}{
		"no problem":                        {used, "", false},
		"the state is missing":              {used, terraform.StateMissing, true},
		"an outdated state with resources":  {nil, terraform.StateOutdated, true},
		"another state, and no own one":     {nil, terraform.StateForeign, false},
		"another state instead of its own":  {used, terraform.StateForeign, true},
		"another state after a lost record": {unconfirmed, terraform.StateForeign, true},
	} {
		s := newScope("hello")
		s.Apply.Status.State = tt.state
		NewWithT(t).Expect(needsState(s.Workspace, tt.problem)).To(Equal(tt.want), name)
	}
}

func TestLeavesState(t *testing.T) {
	empty := &infrav1.StateStatus{Backend: "s3", Configuration: "c", Lineage: "l", Confirmation: infrav1.StateConfirmed}
	for name, tt := range map[string]struct {
		state   *infrav1.StateStatus
		failure *infrav1.FailureStatus
		want    bool
	}{
		"no state was written":      {nil, nil, false},
		"a state without a lineage": {&infrav1.StateStatus{Backend: "s3"}, nil, false},
		"the default backend":       {&infrav1.StateStatus{Backend: "kubernetes", Lineage: "l"}, nil, false},
		"an empty state":            {empty, nil, true},
		"a failed apply":            {empty, &infrav1.FailureStatus{Inputs: "x", Attempts: 9}, true},
		"a failed attempt":          {empty, &infrav1.FailureStatus{Inputs: runs.DestroyInputs, Attempts: 1}, true},
		"too many failed attempts":  {empty, &infrav1.FailureStatus{Inputs: runs.DestroyInputs, Attempts: freeAttempts}, false},
	} {
		s := newScope("hello")
		s.Apply.Status.State, s.Apply.Status.Failure = tt.state, tt.failure
		NewWithT(t).Expect(leavesState(s.Workspace)).To(Equal(tt.want), name)
	}
}

// A plan that was lost has created the state that it planned against.
func TestLeavesState_afterALostRun(t *testing.T) {
	for name, tt := range map[string]struct {
		backend map[string]string
		result  terraform.Result
		want    bool
	}{
		"lost":                {onS3(), terraform.Result{Operation: terraform.OperationPlan, Outcome: runs.OutcomeLost}, true},
		"it never started":    {onS3(), terraform.Result{Operation: terraform.OperationPlan, Outcome: runs.OutcomeLost, Unclaimed: true}, false},
		"failed":              {onS3(), terraform.Result{Operation: terraform.OperationPlan, Outcome: terraform.OutcomeFailed}, false},
		"the default backend": {map[string]string{record.BackendAnnotation: terraform.BackendKubernetes}, terraform.Result{Operation: terraform.OperationPlan, Outcome: runs.OutcomeLost}, false},
	} {
		g := NewWithT(t)
		s := newScope("hello")
		run := runWith(tt.backend)
		patch, err := record.FinishPatch(&tt.result, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Unmarshal(patch, run.Secret)).To(Succeed())
		s.Runs = []*runs.Run{run}
		g.Expect(leavesState(s.Workspace)).To(Equal(tt.want), name)
	}
}

// A destroy has marked the state as free, so it is not repeated.
func TestLeavesState_afterADestroy(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3", Lineage: "l", Confirmation: infrav1.StateConfirmed}
	run := runWith(onS3())
	run.Secret.Annotations[record.OperationAnnotation] = string(terraform.OperationDestroy)
	patch, err := record.FinishPatch(&terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeSucceeded}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(patch, run.Secret)).To(Succeed())
	s.Runs = []*runs.Run{run}
	g.Expect(leavesState(s.Workspace)).To(BeFalse())
}

// Code of a module can write anything into the Secret of its run. Such a run must not be
// recorded again and again, which would keep the workspace from being deleted.
func TestRecordState_ignoresAStateThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	run.Secret.Data["state"] = []byte("x")
	s.RecordState(run, &terraform.Result{Outcome: terraform.OutcomeInterrupted, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}, Operation: terraform.OperationPlanAndApply})
	g.Expect(s.Apply.Status.State.Confirmation).To(Equal(infrav1.StateUnconfirmed))
	s.RecordLineage(run)
	g.Expect(s.Apply.Status.State.Lineage).To(BeEmpty())

	run.Secret.Annotations[record.StateAnnotation] = "{"
	g.Expect(s.WasEmpty(run)).To(BeFalse())
}
