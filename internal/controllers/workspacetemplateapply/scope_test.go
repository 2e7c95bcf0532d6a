package workspacetemplateapply

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

func newSecret(meta metav1.ObjectMeta) *corev1.Secret { return &corev1.Secret{ObjectMeta: meta} }

func TestNextNumber(t *testing.T) {
	tests := []struct {
		name   string
		status int64
		runs   []int64
		want   int64
	}{
		{"first", 0, nil, 1},
		{"after recorded runs", 0, []int64{3, 2, 1}, 4},
		{"after a run that is not in the cache", 4, []int64{3, 2}, 5},
		{"after a run that is not in the status", 3, []int64{4, 3}, 5},
		{"after all were pruned", 7, nil, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Status.Runs = tt.status
			for _, number := range tt.runs {
				s.Runs = append(s.Runs, &runs.Run{Number: number})
			}
			g.Expect(s.NextNumber()).To(Equal(tt.want))
			g.Expect(s.NextNumber()).To(Equal(tt.want), "the number is stable, so that no run is started twice")
		})
	}
}

// All names that derive from the name of a workspace are valid and unique, also for
// long and similar names.
func TestNames_ofLongWorkspacesDoNotCollide(t *testing.T) {
	prefix := strings.Repeat("a", 199)
	dotted := strings.Repeat("ab.", 66)
	names := []string{prefix + "a", prefix + "b", prefix, prefix[:100], prefix[:64], prefix[:63], prefix[:61], prefix[:60], prefix[:46], prefix[:45], prefix[:44], dotted + "a", dotted + "b", "a.b", "a-b", "a.b.c", "a-b.c", "a.b-c"}
	seen := map[string]string{}
	unique := func(g Gomega, kind, name, workspace string) {
		other, taken := seen[kind+" "+name]
		g.Expect(taken).To(BeFalse(), "%s %s of %s is the same as of %s", kind, name, workspace, other)
		seen[kind+" "+name] = workspace
	}
	for _, name := range names {
		g := NewWithT(t)
		s := newScope(name)
		request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
		request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL}
		g.Expect(request.Validate()).To(Succeed(), name)
		secret, err := record.NewRun(request, s.RunMeta(request, infrav1.ExecutorProcess))
		g.Expect(err).NotTo(HaveOccurred())
		for key, value := range secret.Labels {
			g.Expect(validation.IsValidLabelValue(value)).To(BeEmpty(), key)
		}
		g.Expect(validation.IsDNS1123Subdomain(secret.Name)).To(BeEmpty())
		unique(g, "run", secret.Name, name)
		unique(g, "label", secret.Labels[infrav1.WorkspaceLabel], name)

		suffix := template.StateSuffix(name)
		unique(g, "state", suffix, name)
		backend := terraform.Backend{SecretSuffix: suffix}
		for _, object := range []string{backend.StateSecretName(), backend.LeaseName(), record.ChunkName(record.SnapshotName(request.RunID, nil), 12)} {
			g.Expect(validation.IsDNS1123Subdomain(object)).To(BeEmpty(), object)
		}
		for key, value := range backend.StateLabels() {
			g.Expect(validation.IsValidLabelValue(value)).To(BeEmpty(), key)
		}
	}
}

func TestRequest_followsTheDecision(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Inputs.Request.Protect = []string{"aws_vpc"}
	s.Requests.Approvals = []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"aws_vpc.this"} })}
	ask(s, newUnlockOperation("a-lock"), newRestoreOperation("restore", "capt-snapshot-hello-r1-0"))

	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationApply, Plan: planID})
	g.Expect(request.RunID).To(Equal("hello-r2"))
	g.Expect(request.Plan).To(Equal(&terraform.PlanRef{ID: planID}))
	g.Expect(request.Protect).To(ConsistOf("aws_vpc"))
	g.Expect(request.Unprotected).To(ConsistOf("aws_vpc.this"))
	g.Expect(request.BreakLock).To(Equal("a-lock"))
	g.Expect(request.Snapshot).To(Equal("snapshot-hello-r1"))
	g.Expect(request.GoneRuns).To(ConsistOf("hello-r1"))
	g.Expect(request.State.Resources).To(BeNumerically(">", 0))

	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationDestroy})
	g.Expect(request.Protect).To(BeEmpty(), "deleting the workspace overrides protection")
	g.Expect(s.Inputs.Request.Protect).To(ConsistOf("aws_vpc"), "the inputs are unchanged")
}

func TestRequest_refetchesTheModuleOnRequest(t *testing.T) {
	handled, again := newRunOperation("handled"), newRunOperation("again")
	handled.Status.Phase = infrav1.OperationSucceeded
	tests := []struct {
		name      string
		requested []*infrav1.WorkspaceOperation
		operation terraform.Operation
		want      bool
	}{
		{"no request", nil, terraform.OperationPlanAndApply, false},
		{"requested", []*infrav1.WorkspaceOperation{handled, again}, terraform.OperationPlanAndApply, true},
		{"a plan is requested", []*infrav1.WorkspaceOperation{handled, again}, terraform.OperationPlan, true},
		{"a saved plan uses its own module", []*infrav1.WorkspaceOperation{handled, again}, terraform.OperationApply, false},
		{"handled", []*infrav1.WorkspaceOperation{handled}, terraform.OperationPlanAndApply, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			ask(s, tt.requested...)
			request := requestOf(g, s, decision.Decision{Operation: tt.operation})
			g.Expect(request.Module.Refetch).To(Equal(tt.want))
		})
	}
}

func TestRequest_usesTheNewestLockFile(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: []byte("old")})
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: []byte("new")})
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed})
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(string(request.LockFile)).To(Equal("new"))
	g.Expect(request.GoneRuns).To(Equal([]string{"hello-r3", "hello-r2", "hello-r1"}))
}

func TestBackendName(t *testing.T) {
	g := NewWithT(t)
	kubernetes := terraform.Backend{Type: "kubernetes", Namespace: "n", SecretSuffix: "x"}
	one := terraform.Backend{Type: "s3", HCL: `key = "1"`}
	two := terraform.Backend{Type: "s3", HCL: `key = "2"`}
	g.Expect(runs.BackendName(kubernetes)).To(Equal("kubernetes"))
	g.Expect(runs.BackendName(one)).NotTo(Equal(runs.BackendName(two)))
	for _, backend := range []terraform.Backend{kubernetes, one, two, {Type: "local"}} {
		s := newScope("hello")
		s.Inputs.Request.Backend = backend
		s.Apply.Status.State = stateOf(backend, &terraform.Result{State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 2}})
		g.Expect(runs.StateBackend(s.Apply.Status.State)).To(Equal(runs.BackendName(backend)), "the status has the name that is compared")
		s.Apply.Status.State.Resources = 0
		g.Expect(runs.StateBackend(s.Apply.Status.State)).To(BeEmpty(), "an empty state may be in any backend")
	}
}

func TestCanProve(t *testing.T) {
	s3 := terraform.Backend{Type: "s3", HCL: "key = \"1\" # a comment"}
	confirmed := infrav1.StateStatus{Backend: "s3", Configuration: "11111111", Lineage: "l", Serial: 3, Resources: 2, Confirmation: infrav1.StateConfirmed}
	for name, tt := range map[string]struct {
		change func(*infrav1.StateStatus)
		want   bool
	}{
		"another text":                 {func(*infrav1.StateStatus) {}, true},
		"another type":                 {func(s *infrav1.StateStatus) { s.Backend = "gcs" }, false},
		"the default backend":          {func(s *infrav1.StateStatus) { s.Backend = terraform.BackendKubernetes }, false},
		"before lineages":              {func(s *infrav1.StateStatus) { s.Lineage = "" }, false},
		"after a run without a report": {func(s *infrav1.StateStatus) { s.Confirmation = infrav1.StateUnconfirmed }, false},
	} {
		state := confirmed.DeepCopy()
		tt.change(state)
		NewWithT(t).Expect(runs.CanProve(state, s3)).To(Equal(tt.want), name)
	}
	NewWithT(t).Expect(runs.CanProve(nil, s3)).To(BeFalse())
}

func TestRequest_hasTheKnownStateOfItsBackend(t *testing.T) {
	state := func(change func(*infrav1.StateStatus)) *infrav1.StateStatus {
		s := &infrav1.StateStatus{Backend: terraform.BackendKubernetes, Lineage: "l", Serial: 3, Resources: 2, Confirmation: infrav1.StateConfirmed}
		change(s)
		return s
	}
	info := terraform.StateInfo{Lineage: "l", Serial: 3, Resources: 2}
	for name, tt := range map[string]struct {
		state *infrav1.StateStatus
		adopt *infrav1.AdoptOptions
		want  terraform.KnownState
	}{
		"no state":                 {nil, nil, terraform.KnownState{}},
		"its state":                {state(func(*infrav1.StateStatus) {}), nil, terraform.KnownState{StateInfo: info}},
		"an unconfirmed state":     {state(func(s *infrav1.StateStatus) { s.Confirmation = infrav1.StateUnconfirmed }), nil, terraform.KnownState{StateInfo: info, Unconfirmed: true}},
		"before lineages":          {&infrav1.StateStatus{Resources: 2}, nil, terraform.KnownState{StateInfo: terraform.StateInfo{Resources: 2}}},
		"an empty one elsewhere":   {state(func(s *infrav1.StateStatus) { s.Backend, s.Resources = "s3", 0 }), nil, terraform.KnownState{StateInfo: terraform.StateInfo{Lineage: info.Lineage, Serial: info.Serial}}},
		"one that was moved":       {state(func(s *infrav1.StateStatus) { s.Backend = "s3" }), &infrav1.AdoptOptions{Backend: terraform.BackendKubernetes}, terraform.KnownState{StateInfo: info, Moved: true}},
		"one of a changed backend": {state(func(s *infrav1.StateStatus) { s.Backend = "s3" }), nil, terraform.KnownState{StateInfo: info, Moved: true}},
		"one to adopt":             {nil, &infrav1.AdoptOptions{State: "l/3"}, terraform.KnownState{Adopt: "l/3"}},
	} {
		g := NewWithT(t)
		s := newScope("hello")
		s.Apply.Status.State = tt.state
		if tt.adopt != nil {
			ask(s, newAdoptOperation(*tt.adopt))
		}
		request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
		g.Expect(request.State).To(Equal(tt.want), name)
		g.Expect(request.Plan).To(BeNil())
	}
}

func TestRequest_listsTheHoldersOfEndedRuns(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	claim(g, addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed}), record.Identity{Host: "failed"})
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost})
	claim(g, addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost, FinishedAt: noon.Add(time.Hour)}), record.Identity{Host: "lost"})
	claim(g, startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply}), record.Identity{Host: "running"})

	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(request.GoneHolders).To(Equal([]terraform.Holder{
		{Host: "lost", Since: noon.Add(-execution.ClockSkew), Until: noon.Add(time.Hour + execution.ClockSkew)},
		{Host: "failed", Since: noon, Until: noon},
	}))
	g.Expect(execution.HolderOf(infrav1.ExecutorJob, &record.Identity{Host: "pod", PodName: "pod"}, &terraform.Result{StartedAt: noon})).To(Equal(terraform.Holder{Host: "pod"}), "no other run is in its pod")
	g.Expect(request.GoneRuns).To(HaveLen(4))
}

func TestRunRecords_sortsTheNewestFirst(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	var secrets []corev1.Secret
	for range 10 {
		secrets = append(secrets, *startRun(g, s, decision.Decision{Operation: terraform.OperationPlan}).Secret)
	}
	found := runs.Records(testKey, s.Apply, secrets)
	g.Expect(found).To(HaveLen(10))
	g.Expect(found[0].ID).To(Equal("hello-r10"))
	g.Expect(found[0].Number).To(BeEquivalentTo(10))
	g.Expect(found[0].Origin).To(Equal(runs.OriginSealed))
	g.Expect(found[8].ID).To(Equal("hello-r2"))
}

// A module can create Secrets in the namespace of its workspace, and can read its own run.
func TestRunRecords_countsOnlyRunsThatTheManagerCreated(t *testing.T) {
	rename := func(secret *corev1.Secret, id string) {
		secret.Name, secret.Labels[infrav1.RunLabel] = record.SecretName(id), id
	}
	for name, change := range map[string]func(*corev1.Secret){
		"the next number":        func(s *corev1.Secret) { rename(s, "hello-r3") },
		"the largest number":     func(s *corev1.Secret) { rename(s, "hello-r9223372036854775807") },
		"a negative number":      func(s *corev1.Secret) { rename(s, "hello-r-1") },
		"a run of another one":   func(s *corev1.Secret) { rename(s, "other-r2") },
		"another label":          func(s *corev1.Secret) { s.Labels[infrav1.RunLabel] = "other-r2" },
		"another workspace":      func(s *corev1.Secret) { s.OwnerReferences[0].Name = "other" },
		"another UID":            func(s *corev1.Secret) { s.OwnerReferences[0].UID = "other" },
		"no controller":          func(s *corev1.Secret) { s.OwnerReferences[0].Controller = nil },
		"another namespace":      func(s *corev1.Secret) { s.Namespace = "other" },
		"another request":        func(s *corev1.Secret) { s.Annotations[record.DigestAnnotation] = "sha256:00" },
		"another operation":      func(s *corev1.Secret) { s.Annotations[record.OperationAnnotation] = "Destroy" },
		"another executor":       func(s *corev1.Secret) { s.Annotations[record.ExecutorAnnotation] = "Job" },
		"a state that was lost":  func(s *corev1.Secret) { delete(s.Annotations, record.StateAnnotation) },
		"without a seal":         func(s *corev1.Secret) { delete(s.Annotations, record.SealAnnotation) },
		"another request of it":  func(s *corev1.Secret) { s.Annotations[record.RequestAnnotation] = "x" },
		"another kind of name":   func(s *corev1.Secret) { s.Name = "hello-r2" },
		"a number with a prefix": func(s *corev1.Secret) { rename(s, "hello-r02") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			recordRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned})
			run := addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned})
			g.Expect(runs.Records(testKey, s.Apply, []corev1.Secret{*run.Secret})).To(HaveLen(1))
			change(run.Secret)
			g.Expect(runs.Records(testKey, s.Apply, []corev1.Secret{*run.Secret})).To(BeEmpty())
		})
	}
}

func TestRunRecords_knowsRunsOfTheStatus(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	var secrets []corev1.Secret
	for range 6 {
		run := addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned})
		run.Secret.CreationTimestamp = metav1.NewTime(testKey.Created().Add(time.Second))
		delete(run.Secret.Annotations, record.SealAnnotation)
		secrets = append(secrets, *run.Secret)
	}
	s.Apply.Status.Runs, s.Apply.Status.History = 4, []infrav1.RunRecord{{ID: "hello-r3"}}
	s.Apply.Status.Run = &infrav1.RunStatus{ID: "hello-r4"}
	ids := func() (ids []string) {
		for _, run := range runs.Records(testKey, s.Apply, secrets) {
			g.Expect(run.Origin).To(Equal(runs.OriginKnown))
			ids = append(ids, run.ID)
		}
		return ids
	}
	g.Expect(ids()).To(Equal([]string{"hello-r4", "hello-r3"}), "only the status says so if they were restored after the key was created")
	for i := range secrets {
		secrets[i].CreationTimestamp = metav1.NewTime(testKey.Created())
	}
	g.Expect(ids()).To(Equal([]string{"hello-r4", "hello-r3", "hello-r2", "hello-r1"}), "one of them may have the outputs that are in use")
	for i := range secrets {
		delete(secrets[i].Data, "result")
	}
	g.Expect(ids()).To(Equal([]string{"hello-r4", "hello-r3"}), "a forged one would be started")
}

func TestRunRecords_adoptsRunsOfAMovedWorkspace(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	ended := addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned})
	pending := startRun(g, s, decision.Decision{Operation: terraform.OperationPlan})
	s.Apply.UID = "moved"
	for _, run := range s.Runs {
		run.Secret.OwnerReferences[0].UID = "moved"
	}
	secrets := []corev1.Secret{*ended.Secret, *pending.Secret}
	g.Expect(runs.Records(testKey, s.Apply, secrets)).To(BeEmpty(), "the workspace has a status")
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	found := runs.Records(testKey, s.Apply, secrets)
	g.Expect(found).To(HaveLen(1), "a run that has not ended is never started")
	g.Expect(found[0].ID).To(Equal("hello-r1"))
	g.Expect(found[0].Origin).To(Equal(runs.OriginMoved))
}

func TestWithComponent(t *testing.T) {
	secret := func(name, component string) corev1.Secret {
		return *newSecret(metav1.ObjectMeta{Name: name, Labels: map[string]string{infrav1.ComponentLabel: component, infrav1.WorkspaceLabel: "hello"}})
	}
	secrets := []corev1.Secret{secret("a", "run"), secret("b", "plan"), secret("c", "run"), *newSecret(metav1.ObjectMeta{Name: "d"})}
	NewWithT(t).Expect(secretNames(newScope("hello").WithComponent(secrets, "run"))).To(Equal([]string{"a", "c"}))
}

func TestExecutor(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Default: infrav1.ExecutorProcess}
	s := newScope("hello")
	g.Expect(r.build().execution.Executor(s)).To(Equal(infrav1.ExecutorProcess))
	s.Inputs.Policy.Executor = infrav1.ExecutorJob
	g.Expect(r.build().execution.Executor(s)).To(Equal(infrav1.ExecutorJob))
	s.Inputs = nil
	g.Expect(r.build().execution.Executor(s)).To(Equal(infrav1.ExecutorProcess), "the inputs are unknown")
}

func TestExecutor_isThatOfALostRun(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Inputs.Policy.Executor = infrav1.ExecutorJob
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost})
	s.Runs[0].Secret.Annotations[record.ExecutorAnnotation] = string(infrav1.ExecutorProcess)
	r := &Reconciler{Default: infrav1.ExecutorJob}
	g.Expect(r.build().execution.Executor(s)).To(Equal(infrav1.ExecutorProcess))
	_, err := r.build().execution.Runner(s.Workspace, r.build().execution.Executor(s))
	_, stalled := fault.AsStalled(err)
	g.Expect(stalled).To(BeTrue())
	g.Expect(err).To(MatchError(And(ContainSubstring("Run hello-r1 was lost"), ContainSubstring("captctl unlock with hello-r1"))))
	ask(s, newUnlockOperation("hello-r1"))
	g.Expect(r.build().execution.Executor(s)).To(Equal(infrav1.ExecutorJob), "the user gives up the state")
}

func TestRef_hasTheNameOfTheWorkspace(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlan})
	run.Secret.OwnerReferences[0].Name = "other"
	g.Expect(run.Ref()).To(Equal(terraform.Run{Namespace: "n", Workspace: "hello", WorkspaceUID: string(s.Apply.UID), ID: "hello-r1", Digest: record.RequestDigest(run.Secret)}))
}

func TestRunner_stallsIfTheExecutorIsNotEnabled(t *testing.T) {
	g := NewWithT(t)
	_, err := (&Reconciler{}).build().execution.Runner(newScope("hello").Workspace, infrav1.ExecutorJob)
	_, stalled := fault.AsStalled(err)
	g.Expect(stalled).To(BeTrue())
	g.Expect(err).To(MatchError(ContainSubstring("Job")))
}

func TestSurplusRuns(t *testing.T) {
	noChanges := terraform.Result{Outcome: terraform.OutcomeNoChanges}
	failed := terraform.Result{Outcome: terraform.OutcomeFailed}
	lost := terraform.Result{Outcome: runs.OutcomeLost}
	tests := []struct {
		name  string
		limit *int32
		runs  []terraform.Result
		want  []string
	}{
		{"few", nil, []terraform.Result{noChanges, failed}, nil},
		{"the limit", ptr.To[int32](2), []terraform.Result{noChanges, noChanges}, nil},
		{"beyond", ptr.To[int32](2), []terraform.Result{noChanges, noChanges, noChanges, noChanges}, []string{"hello-r2", "hello-r1"}},
		{"the outputs of an old run are in use", ptr.To[int32](1), []terraform.Result{noChanges, noChanges, failed, failed}, []string{"hello-r3", "hello-r1"}},
		{"a lost run that may hold the lock", ptr.To[int32](1), []terraform.Result{noChanges, {Outcome: runs.OutcomeLost, Operation: terraform.OperationPlanAndApply}, failed, failed}, []string{"hello-r3"}},
		{"very many lost runs", nil, append([]terraform.Result{lost}, slices.Repeat([]terraform.Result{lost}, cleanup.KeptLost+2)...), []string{"hello-r3", "hello-r2"}},
		{"lost runs that did not start", nil, append([]terraform.Result{lost}, slices.Repeat([]terraform.Result{{Outcome: runs.OutcomeLost, Unclaimed: true}}, 10)...), nil},
		{"ten by default", nil, slices.Repeat([]terraform.Result{failed}, 12), []string{"hello-r2", "hello-r1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Spec.HistoryLimit = tt.limit
			for _, result := range tt.runs {
				addRun(g, s, terraform.OperationPlanAndApply, result)
			}
			surplus := cleanup.SurplusRuns(s.Workspace)
			var names []string
			for _, run := range surplus {
				names = append(names, run.ID)
			}
			g.Expect(names).To(Equal(tt.want))
			g.Expect(s.Runs).To(HaveLen(len(tt.runs)), "the scope is unchanged")
		})
	}
}

// The changes of the plan that an approver reads are those of its run.
func TestSurplusRuns_keepsTheRunOfAWaitingPlan(t *testing.T) {
	for waiting, want := range map[bool]int{true: 1, false: 2} {
		g := NewWithT(t)
		s := newScope("hello")
		s.Apply.Spec.HistoryLimit = new(int32(1))
		for range 3 {
			addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeFailed})
		}
		s.Apply.Status.Plan = &infrav1.PlanStatus{ID: "p", Run: "hello-r1", Waiting: &waiting}
		g.Expect(cleanup.SurplusRuns(s.Workspace)).To(HaveLen(want))
	}
}

// Many plans that are lost do not replace the run that may have changed resources.
func TestSurplusRuns_keepsALostRunThatMayHaveChangedResources(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	lost := terraform.Result{Outcome: runs.OutcomeLost}
	addRun(g, s, terraform.OperationPlanAndApply, lost)
	for range cleanup.KeptLost + 2 {
		addRun(g, s, terraform.OperationPlan, lost)
	}
	surplus := cleanup.SurplusRuns(s.Workspace)
	g.Expect(surplus).To(HaveLen(1))
	g.Expect(surplus[0].ID).To(Equal("hello-r3"))
}

func secretNames(secrets []corev1.Secret) (names []string) {
	for _, secret := range secrets {
		names = append(names, secret.Name)
	}
	return names
}

// stateOf returns the status of a state in a backend.
func stateOf(backend terraform.Backend, result *terraform.Result) *infrav1.StateStatus {
	_, configuration, _ := strings.Cut(runs.BackendName(backend), "-")
	return &infrav1.StateStatus{Backend: backend.Type, Configuration: configuration, Resources: int32(result.State.Resources)}
}
