package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func accept(*PlanResult, string) bool { return true }
func refuse(*PlanResult, string) bool { return false }

func prepared(t *testing.T, request *terraform.Request) (*Workdir, *Session, *syncBuffer) {
	t.Helper()
	w, log := workdir(t, tofu(t))
	session, err := Prepare(t.Context(), w, request)
	if err != nil {
		t.Fatal(err)
	}
	return w, session, log
}

func TestPlanAndApply(t *testing.T) {
	g := NewWithT(t)
	w, session, log := prepared(t, inline(`
resource "terraform_data" "a" { input = "x" }
output "a" { value = terraform_data.a.output }
output "password" {
  value     = "correct horse battery"
  sensitive = true
}
`))
	g.Expect(session.CanPlanAndApply()).To(BeTrue())
	var planned terraform.PlanSummary
	result, err := session.PlanAndApply(t.Context(), []string{"-parallelism=3"}, []string{"-auto-approve", "-parallelism=3"}, func(plan *PlanResult, text string) bool {
		planned = plan.Summary
		g.Expect(plan.HasChanges).To(BeTrue())
		g.Expect(text).To(And(ContainSubstring(`input  = "x"`), ContainSubstring("password = (sensitive value)")))
		g.Expect(exists(filepath.Join(session.Root, "terraform.tfstate"))).To(BeFalse(), "the tool waits")
		return true
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(planned.Add).To(Equal(1))
	g.Expect(planned.Changes).To(Equal([]terraform.Change{{Address: "terraform_data.a", Action: terraform.ActionCreate, Type: "terraform_data"}}))
	g.Expect(result.Plan.HasChanges).To(BeTrue())
	g.Expect(result.Plan.Summary.Add).To(Equal(1))
	g.Expect(result.Applied.Added).To(Equal(1))
	g.Expect(string(result.Applied.Outputs["a"].Value)).To(Equal(`"x"`))
	g.Expect(localStateOf(t, w, session).Resources).To(Equal(1))
	g.Expect(log.String()).To(And(
		ContainSubstring("terraform_data.a: Plan to create"), ContainSubstring("terraform_data.a: Creation complete"),
		Not(ContainSubstring("Enter a value")), Not(ContainSubstring("correct horse")),
	))
}

func TestPlanAndApply_appliesNothingWithoutConsent(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	request := inline(fmt.Sprintf(`resource "terraform_data" "a" {
  provisioner "local-exec" { command = "touch %s/created" }
}`, dir))
	_, session, _ := prepared(t, request)
	result, err := session.PlanAndApply(t.Context(), nil, nil, refuse)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*result).To(BeZero())
	g.Expect(filepath.Join(dir, "created")).NotTo(BeAnExistingFile())
	g.Expect(filepath.Join(session.Root, erroredState)).NotTo(BeAnExistingFile())

	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = session.PlanAndApply(ctx, nil, nil, func(*PlanResult, string) bool {
		cancel(errors.New("cancelled by the user"))
		return true
	})
	// The answer and the interrupt arrive at the same time.
	if failure := AsFailure(err); failure != nil {
		g.Expect(failure.Interrupted).To(BeTrue())
	}
}

func TestPlanAndApply_interruptedWhileItPlans(t *testing.T) {
	g := NewWithT(t)
	_, session, _ := prepared(t, inline(`resource "terraform_data" "a" {}`))
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := session.PlanAndApply(ctx, nil, nil, accept)
	g.Expect(AsFailure(err).Outcome()).To(Equal(terraform.OutcomeTimedOut))
	g.Expect(AsFailure(err).Command).To(Equal("plan"))
}

func TestPlanAndApply_withoutChanges(t *testing.T) {
	g := NewWithT(t)
	_, session, _ := prepared(t, inline(`locals { a = 1 }`))
	result, err := session.PlanAndApply(t.Context(), nil, nil, accept)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Plan.HasChanges).To(BeFalse())
	g.Expect(result.Applied).To(BeNil())

	_, session, _ = prepared(t, inline(`output "a" { value = 1 }`))
	result, err = session.PlanAndApply(t.Context(), nil, nil, accept)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Plan.Summary.OutputsOnly).To(BeTrue())
	g.Expect(string(result.Applied.Outputs["a"].Value)).To(Equal("1"))
}

// A separate plan reports what is missing.
func TestPlanAndApply_answersNoOtherQuestion(t *testing.T) {
	g := NewWithT(t)
	_, session, _ := prepared(t, inline(`
variable "a" {}
resource "terraform_data" "a" { input = var.a }
`))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result, err := session.PlanAndApply(ctx, nil, nil, accept)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*result).To(BeZero())
}

func TestPlanAndApply_reportsFailures(t *testing.T) {
	g := NewWithT(t)
	_, session, _ := prepared(t, inline(`resource "terraform_data" "a" { input = file("missing") }`))
	_, err := session.PlanAndApply(t.Context(), nil, nil, accept)
	g.Expect(AsFailure(err).Command).To(Equal("plan"))
	g.Expect(err).To(MatchError(ContainSubstring("missing")))

	// The tool prints what it has planned, and asks nothing.
	_, session, _ = prepared(t, inline(`
resource "terraform_data" "a" {}
resource "terraform_data" "b" { input = file("missing") }`))
	_, err = session.PlanAndApply(t.Context(), nil, nil, accept)
	g.Expect(AsFailure(err).Command).To(Equal("plan"))

	w, session, _ := prepared(t, inline(`
resource "terraform_data" "a" {}
resource "terraform_data" "b" {
  input = terraform_data.a.id
  provisioner "local-exec" { command = "exit 3" }
}`))
	_, err = session.PlanAndApply(t.Context(), nil, nil, accept)
	g.Expect(AsFailure(err).Command).To(Equal("apply"))
	g.Expect(err).To(MatchError(ContainSubstring("exit status 3")))
	g.Expect(localStateOf(t, w, session).Addresses).To(ContainElement("terraform_data.a"))
}

func TestCanPlanAndApply(t *testing.T) {
	tests := []struct {
		name    string
		session Session
		want    bool
	}{
		{"OpenTofu", Session{product: OpenTofu, version: "1.12.6"}, true},
		{"an empty variable", Session{product: OpenTofu, version: "1.13.0", env: []string{"TF_CLI_ARGS_plan="}}, true},
		{"arguments of plans", Session{product: OpenTofu, version: "1.12.6", env: []string{"TF_CLI_ARGS_plan=-refresh=false"}}, false},
		{"arguments", Session{product: OpenTofu, version: "1.12.6", env: []string{"TF_CLI_ARGS=-parallelism=1"}}, false},
		{"an earlier version", Session{product: OpenTofu, version: "1.11.4"}, false},
		{"an unknown version", Session{product: OpenTofu}, false},
		{"Terraform", Session{product: Terraform, version: "1.13.0"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(tt.session.CanPlanAndApply()).To(Equal(tt.want)) })
	}
}

func TestCanPlanAndApply_withSmallProviders(t *testing.T) {
	g := NewWithT(t)
	session := &Session{product: OpenTofu, version: "1.12.6", Root: t.TempDir()}
	dir := filepath.Join(session.Root, ".terraform/providers/registry.opentofu.org/hashicorp/a/1.0.0", platform)
	g.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	program := filepath.Join(dir, "terraform-provider-a")
	g.Expect(os.WriteFile(program, nil, 0o600)).To(Succeed())
	g.Expect(session.CanPlanAndApply()).To(BeTrue())
	g.Expect(os.Truncate(program, maxProviders+1)).To(Succeed())
	g.Expect(session.CanPlanAndApply()).To(BeFalse())
}

// Code of the module runs while the tool plans, as the same user.
func TestQuestion_isAnsweredOnlyByThisProcess(t *testing.T) {
	g := NewWithT(t)
	text, err := os.CreateTemp(t.TempDir(), "")
	g.Expect(err).NotTo(HaveOccurred())
	q, err := newQuestion(text)
	g.Expect(err).NotTo(HaveOccurred())
	defer q.close()
	for _, end := range []*os.File{q.stdin, q.answers} {
		_, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(end.Fd())), os.O_WRONLY, 0)
		g.Expect(err).To(HaveOccurred())
	}
}
