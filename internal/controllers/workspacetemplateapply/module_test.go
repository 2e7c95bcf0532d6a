package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestPinModule(t *testing.T) {
	module := terraform.Module{Source: terraform.SourceRemote, Address: "git::https://example.com/x.git?ref=main"}
	resolved := &infrav1.ModuleStatus{Digest: "d", Revision: "r", Archive: "a", Source: runs.ModuleSource(module), Inputs: "i"}
	other := resolved.DeepCopy()
	other.Source = "other"
	pin := &terraform.ModuleContent{Digest: "d", Revision: "r", Archive: "a"}
	for name, tc := range map[string]struct {
		operation terraform.Operation
		resolved  *infrav1.ModuleStatus
		inputs    string
		requested bool
		want      *terraform.ModuleContent
		refetch   bool
	}{
		"the first run":                      {terraform.OperationPlan, nil, "i", false, nil, false},
		"the same inputs":                    {terraform.OperationPlanAndApply, resolved, "i", false, pin, false},
		"other inputs":                       {terraform.OperationPlan, resolved, "j", false, nil, true},
		"the same inputs on request":         {terraform.OperationPlanAndApply, resolved, "i", true, nil, true},
		"a saved plan":                       {terraform.OperationApply, resolved, "i", false, pin, false},
		"a saved plan on request":            {terraform.OperationApply, resolved, "i", true, pin, false},
		"a drift check":                      {terraform.OperationCheckDrift, resolved, "j", false, pin, false},
		"a destroy after the inputs changed": {terraform.OperationDestroy, resolved, "j", false, pin, false},
		"a destroy after the module changed": {terraform.OperationDestroy, other, "i", false, nil, true},
		"a state command on request":         {terraform.OperationStateCommand, resolved, "i", true, pin, false},
		"a destroy on request":               {terraform.OperationDestroy, resolved, "i", true, nil, true},
	} {
		request := &terraform.Request{Operation: tc.operation, Module: module}
		execution.PinModule(request, tc.resolved, tc.inputs, tc.requested)
		g := NewWithT(t)
		g.Expect(request.Module.Pin).To(Equal(tc.want), name)
		g.Expect(request.Module.Refetch).To(Equal(tc.refetch), name)
	}
}

func TestRecordModule(t *testing.T) {
	ref := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	archive := record.ModuleName(ref, "d")
	before := &infrav1.ModuleStatus{Digest: "before"}
	stored := func(archive string) *infrav1.ModuleStatus {
		return &infrav1.ModuleStatus{Digest: "d", Revision: "r", Archive: archive, Source: "s", Inputs: "i"}
	}
	content := func(archive string) *terraform.ModuleContent {
		return &terraform.ModuleContent{Digest: "d", Revision: "r", Archive: archive}
	}
	for name, tc := range map[string]struct {
		operation terraform.Operation
		outcome   terraform.Outcome
		content   *terraform.ModuleContent
		source    string
		want      *infrav1.ModuleStatus
	}{
		"a plan":        {terraform.OperationPlan, terraform.OutcomePlanned, content(archive), "s", stored(archive)},
		"a failed plan": {terraform.OperationPlan, terraform.OutcomeFailed, content(archive), "s", stored(archive)},
		"an archive that the run must not choose": {terraform.OperationPlan, terraform.OutcomePlanned, content("snapshot-other-r1"), "s", stored("")},
		"nothing fetched any more":                {terraform.OperationPlanAndApply, terraform.OutcomeSucceeded, nil, "s", nil},
		"a failure before the fetch":              {terraform.OperationPlan, terraform.OutcomeFailed, nil, "s", before},
		"a destroy resolves nothing":              {terraform.OperationDestroy, terraform.OutcomeSucceeded, content(archive), "s", before},
	} {
		s := execution.NewScope(&runs.Workspace{Apply: &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: "u"}}})
		s.Apply.Status.Module = before
		run := &runs.Run{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			record.SourceAnnotation: tc.source, record.InputsAnnotation: "i",
		}}}}
		s.RecordModule(run, &terraform.Result{Operation: tc.operation, Outcome: tc.outcome, Module: tc.content})
		NewWithT(t).Expect(s.Apply.Status.Module).To(Equal(tc.want), name)
	}
}

// A Flux source that was deleted does not keep a workspace from being destroyed, also if the
// user requests it.
func TestPinModule_keepsTheArtifactOfThePlan(t *testing.T) {
	g := NewWithT(t)
	now := terraform.Module{Source: terraform.SourceFlux, Artifact: &terraform.Artifact{Source: "Bucket/b", Digest: "new", Revision: "2"}}
	gone := terraform.Module{Source: terraform.SourceFlux, Artifact: &terraform.Artifact{Source: "Bucket/b"}}
	resolved := &infrav1.ModuleStatus{Digest: "d", Revision: "1", Artifact: "old", Archive: "a", Source: runs.ModuleSource(now), Inputs: "i"}
	g.Expect(runs.ModuleSource(gone)).To(Equal(runs.ModuleSource(now)))
	planned := &terraform.Artifact{Source: "Bucket/b", Digest: "old", Revision: "1"}
	for name, tc := range map[string]struct {
		operation terraform.Operation
		module    terraform.Module
		requested bool
		want      *terraform.Artifact
		pinned    bool
	}{
		"a plan of new inputs":             {terraform.OperationPlan, now, false, now.Artifact, false},
		"a destroy":                        {terraform.OperationDestroy, now, false, planned, true},
		"a destroy on request":             {terraform.OperationDestroy, now, true, now.Artifact, false},
		"a destroy without the source":     {terraform.OperationDestroy, gone, false, planned, true},
		"the same on request":              {terraform.OperationDestroy, gone, true, planned, true},
		"a state command":                  {terraform.OperationStateCommand, now, false, planned, true},
		"a deletion that applies its plan": {terraform.OperationApplyDestroy, gone, true, planned, true},
	} {
		request := &terraform.Request{Operation: tc.operation, Module: tc.module}
		execution.PinModule(request, resolved, "j", tc.requested)
		g.Expect(request.Module.Artifact).To(Equal(tc.want), name)
		g.Expect(request.Module.Pin != nil).To(Equal(tc.pinned), name)
		g.Expect(request.Module.Refetch).NotTo(Equal(tc.pinned), name)
	}
}
