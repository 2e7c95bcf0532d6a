package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// newWorkspace prepares the first run of a workspace with the real tool.
func newWorkspace(t *testing.T, module string) (*Runner, *execution) {
	t.Helper()
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeState(g, "")
	run := newExecution()
	run.request.Operation, run.request.Grace = terraform.OperationPlanAndApply, 20*time.Second
	run.request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: module}
	tool, err := command.Find(commandtest.Tofu(t))
	g.Expect(err).NotTo(HaveOccurred())
	r.workdir = &command.Workdir{Tool: tool, Dir: t.TempDir(), Log: &run.report.log, OnEvent: run.report.observe}
	run.session, err = command.Prepare(t.Context(), r.workdir, run.request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.openState(t.Context(), run)).To(Succeed())
	return r, run
}

func phases(run *execution) string {
	var names []string
	for _, phase := range run.result.Phases {
		names = append(names, string(phase.Name))
	}
	return strings.Join(names, " ")
}

func TestApplyAtOnce(t *testing.T) {
	tests := []struct {
		name, module string
		outcome      terraform.Outcome
		phases       string
		resources    int
	}{
		{"resources", `resource "terraform_data" "a" { count = 3 }`, terraform.OutcomeSucceeded, "Planning Applying", 3},
		{"outputs", `output "a" { value = 1 }`, terraform.OutcomeSucceeded, "Planning Applying", 0},
		{"nothing", `locals { a = 1 }`, terraform.OutcomeNoChanges, "Planning", 0},
		{"a sensitive value", `resource "terraform_data" "a" { input = sensitive("x") }`, terraform.OutcomeSucceeded, "Planning Planning Applying", 1},
		{"data", "data \"terraform_remote_state\" \"a\" {\n  backend = \"local\"\n  config = { path = \"STATE\" }\n}\nresource \"terraform_data\" \"a\" {}", terraform.OutcomeSucceeded, "Planning Planning Applying", 1},
		{"an import", "import {\n  to = terraform_data.a\n  id = \"x\"\n}\nresource \"terraform_data\" \"a\" {}", terraform.OutcomeSucceeded, "Planning Planning Applying", 1},
		{"a large plan", `resource "terraform_data" "a" { input = join("\n", [for i in range(1000) : "${i} ` + strings.Repeat("x", 300) + `"]) }`, terraform.OutcomeSucceeded, "Planning Planning Applying", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			other := filepath.Join(t.TempDir(), "other.tfstate")
			g.Expect(os.WriteFile(other, []byte(emptyState), 0o600)).To(Succeed())
			r, run := newWorkspace(t, strings.ReplaceAll(tt.module, "STATE", other))
			g.Expect(run.appliesAtOnce()).To(BeTrue())
			g.Expect(r.planAndApply(t.Context(), run)).To(Succeed())
			g.Expect(run.result.Outcome).To(Equal(tt.outcome))
			g.Expect(phases(run)).To(Equal(tt.phases))
			g.Expect(run.result.State.Resources).To(Equal(tt.resources))
			g.Expect(run.result.Plan.ID).To(HavePrefix("plan-"))
		})
	}
}

func TestApplyAtOnce_masksSensitiveValues(t *testing.T) {
	g := NewWithT(t)
	r, run := newWorkspace(t, `
variable "password" {
  default   = "correct horse"
  sensitive = true
}
locals { length = nonsensitive(length(var.password)) }
resource "terraform_data" "a" {
  input = local.length
  provisioner "local-exec" {
    command = "echo battery correct horse staple >&2; exit 1"
  }
}`)
	err := r.planAndApply(t.Context(), run)
	g.Expect(run.unsavedPlan).To(BeTrue())
	g.Expect(r.closeState(t.Context(), run, err)).To(Succeed())
	failure := command.AsFailure(err)
	g.Expect(failure).NotTo(BeNil())
	g.Expect(failure.Command).To(Equal("apply"))
	g.Expect(failure.Error()).To(ContainSubstring("correct horse"), "the tool does not mask it")
	r.hideSensitive(t.Context(), run, failure)
	g.Expect(failure.Error()).To(And(ContainSubstring("battery (sensitive value) staple"), Not(ContainSubstring("correct horse"))))
	log := string(run.report.log.Bytes())
	g.Expect(log).To(And(ContainSubstring("battery (sensitive value) staple"), Not(ContainSubstring("correct horse"))))
	g.Expect(strings.Count(log, "Plan to create")).To(Equal(1), "the plan for masking is not logged")
	run.forgetDescription()
}

func TestAppliesAtOnce_isOnlyForNewWorkspacesWithoutDecisions(t *testing.T) {
	tests := []struct {
		name   string
		change func(*execution)
		want   bool
	}{
		{"new", func(*execution) {}, true},
		{"a plan for approval", func(run *execution) { run.request.Operation = terraform.OperationPlan }, false},
		{"a destruction", func(run *execution) { run.request.Operation = terraform.OperationDestroy }, false},
		{"a one-shot operation", func(run *execution) { run.request.OneShot = &terraform.OneShot{PlanOnly: true} }, false},
		{"policies", func(run *execution) { run.request.Policies = &terraform.Policies{} }, false},
		{"another backend", func(run *execution) { run.state = nil }, false},
		{"a state", func(run *execution) { run.state.content = []byte(emptyState) }, false},
		{"parallelism of the plan", func(run *execution) { run.request.PlanArgs = []string{"-parallelism=1"} }, false},
		{"large values", func(run *execution) {
			run.request.Env = map[string]string{"TF_VAR_a": strings.Repeat("x", command.MaxPlanText)}
		}, false},
	}
	_, run := newWorkspace(t, `locals { a = 1 }`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := *run.request
			changed := &execution{request: &request, state: &savedState{}, session: run.session}
			tt.change(changed)
			NewWithT(t).Expect(changed.appliesAtOnce()).To(Equal(tt.want))
		})
	}
}
