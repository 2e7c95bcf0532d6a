package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

const twoResources = `
variable "name" { type = string }
resource "terraform_data" "a" { input = var.name }
resource "terraform_data" "b" {
  count = 2
  input = terraform_data.a.output
}
output "name" { value = terraform_data.a.output }
output "password" {
  value     = "correct horse battery"
  sensitive = true
}
`

func TestSession_plansAppliesAndDestroys(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		w, log := workdir(t, tool)
		request := inline(twoResources)
		request.Variables = values(map[string]string{"name": `a "quoted" ${name}`})
		tracker := events.NewTracker()
		w.OnEvent = func(event events.Event) { tracker.Observe(event) }

		session, err := Prepare(ctx, w, request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.initRan).To(BeTrue())

		plan, err := session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.HasChanges).To(BeTrue())
		g.Expect(plan.Summary.Add).To(Equal(3))
		g.Expect(plan.Summary.Changes).To(Equal([]terraform.Change{
			{Address: "terraform_data.a", Action: terraform.ActionCreate, Type: "terraform_data"},
			{Address: "terraform_data.b[0]", Action: terraform.ActionCreate, Type: "terraform_data"},
			{Address: "terraform_data.b[1]", Action: terraform.ActionCreate, Type: "terraform_data"},
		}))

		tracker.Enter(terraform.PhaseApplying, time.Now())
		_, err = session.Apply(ctx, w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(tracker.Progress().Done).To(Equal(3))
		g.Expect(tracker.Progress().Total).To(Equal(3))
		g.Expect(tracker.Progress().Current).To(BeEmpty())

		state := localStateOf(t, w, session)
		g.Expect(state.Resources).To(Equal(3))
		g.Expect(string(state.Outputs["name"].Value)).To(Equal(`"a \"quoted\" ${name}"`))
		g.Expect(string(state.Outputs["password"].Value)).To(Equal(`"correct horse battery"`))
		g.Expect(state.Outputs["password"].Sensitive).To(BeTrue())
		g.Expect(state.Resources).To(Equal(3))
		g.Expect(log.String()).To(ContainSubstring("terraform_data.a: Creating..."))
		g.Expect(log.String()).NotTo(ContainSubstring("correct horse"))

		second, err := session.Plan(ctx, PlanOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(second.HasChanges).To(BeFalse())
		drift, err := session.Plan(ctx, PlanOptions{RefreshOnly: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(drift.HasChanges).To(BeFalse())

		destroy, err := session.Plan(ctx, PlanOptions{Out: w.PlanFile(), Destroy: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(destroy.Summary.Destroy).To(Equal(3))
		_, err = session.Apply(ctx, w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(localStateOf(t, w, session).Resources).To(BeZero())
	})
}

func TestSession_plansOutputsOnly(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	apply(t, w, inline(`output "a" { value = 1 }`))
	session, err := Prepare(context.Background(), w, inline(`output "a" { value = 2 }`))
	g.Expect(err).NotTo(HaveOccurred())
	plan, err := session.Plan(context.Background(), PlanOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.HasChanges).To(BeTrue())
	g.Expect(plan.Summary.OutputsOnly).To(BeTrue())
}

func TestSession_rejectsAStalePlan(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w, _ := workdir(t, tool)
		session, _ := apply(t, w, inline(`resource "terraform_data" "a" { input = 1 }`))
		_, err := session.Apply(context.Background(), w.PlanFile(), nil)
		failure := AsFailure(err)
		g.Expect(failure).NotTo(BeNil())
		g.Expect(failure.StalePlan).To(BeTrue())
		g.Expect(failure.Class).To(Equal(terraform.ClassTerminal))
	})
}

func TestSession_reportsFailures(t *testing.T) {
	tests := []struct {
		name, hcl string
		class     terraform.Class
		file      string
		line      int
		short     string
	}{
		{
			name:  "bad HCL",
			hcl:   "resource \"terraform_data\" \"a\" {\n  input =\n}\n",
			class: terraform.ClassTerminal, file: "main.tf", line: 2, short: "main.tf:2: Invalid expression: ",
		},
		{
			name:  "unknown argument",
			hcl:   "resource \"terraform_data\" \"a\" {\n  inptu = 1\n}\n",
			class: terraform.ClassTerminal, file: "main.tf", line: 2, short: `main.tf:2: Unsupported argument: An argument named "inptu" is not expected here. Did you mean "input"?`,
		},
		{
			name:  "missing provider",
			hcl:   "terraform {\n  required_providers {\n    nope = { source = \"hashicorp/nope\" }\n  }\n}\n",
			class: terraform.ClassTerminal, short: "Failed to query available provider packages: ",
		},
		{
			name:  "failing command with invalid UTF-8 output",
			hcl:   "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"printf '\\\\377\\\\376 oops'; exit 3\"\n  }\n}\n",
			class: terraform.ClassTransient, file: "main.tf", line: 2, short: "main.tf:2: local-exec provisioner error: ",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachTool(t, func(t *testing.T, tool *binary.Tool) {
				g := NewWithT(t)
				w, _ := workdir(t, tool)
				w.CLIConfig = filepath.Join(t.TempDir(), "offline.tfrc")
				mirror := "provider_installation {\n  filesystem_mirror {\n    path = \"" + t.TempDir() + "\"\n  }\n}\n"
				g.Expect(os.WriteFile(w.CLIConfig, []byte(mirror), 0o600)).To(Succeed())
				session, err := Prepare(context.Background(), w, inline(test.hcl))
				if err == nil {
					_, err = session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()})
				}
				if err == nil {
					_, err = session.Apply(context.Background(), w.PlanFile(), nil)
				}
				failure := AsFailure(err)
				g.Expect(failure).NotTo(BeNil())
				g.Expect(failure.Class).To(Equal(test.class))
				g.Expect(failure.Outcome()).To(Equal(terraform.OutcomeFailed))
				first := failure.Diagnostics.Errors()[0]
				g.Expect(first.File).To(Equal(test.file))
				g.Expect(first.Line).To(Equal(test.line))
				short := failure.Diagnostics.Short()
				g.Expect(short).To(HavePrefix(test.short))
				g.Expect(len(short)).To(BeNumerically("<=", 500))
				g.Expect(strings.ToValidUTF8(short, "?")).To(Equal(short))
			})
		})
	}
}

func TestSession_masksTheSecretsOfTheRequest(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, tofu(t))
	request := inline(`resource "terraform_data" "a" {
  provisioner "local-exec" { 
    command = "echo token=$TOKEN; exit 1" 
  }
}`)
	request.Env = map[string]string{"TOKEN": "s3cr3t-and-long"}
	request.SecretEnv = []string{"TOKEN"}
	session := planned(context.Background(), t, w, request)
	_, err := session.Apply(context.Background(), w.PlanFile(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("token=(sensitive value)")))
	g.Expect(err).NotTo(MatchError(ContainSubstring("s3cr3t")))
	g.Expect(log.String()).To(ContainSubstring("token=(sensitive value)"))
	g.Expect(log.String()).NotTo(ContainSubstring("s3cr3t"))
	g.Expect(w.Scrub()).To(Succeed())
	g.Expect(w.runDir()).NotTo(BeADirectory())
}

func TestSession_reportsTheHolderOfTheLock(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w, log := workdir(t, tool)
		request := inline(`resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "exec sleep 600"
  }
}`)
		session := planned(ctx, t, w, request)
		done := make(chan error)
		go func() {
			_, err := session.Apply(ctx, w.PlanFile(), nil)
			done <- err
		}()
		g.Eventually(log.String).Should(ContainSubstring("Executing"))

		other := *session
		other.RunDir = t.TempDir()
		_, err := other.Plan(context.Background(), PlanOptions{})
		failure := AsFailure(err)
		g.Expect(failure).NotTo(BeNil())
		g.Expect(failure.Class).To(Equal(terraform.ClassLockHeld))
		g.Expect(failure.Lock.ID).NotTo(BeEmpty())
		g.Expect(failure.Lock.Operation).To(Equal("OperationTypeApply"))
		g.Expect(failure.Lock.Who).NotTo(BeEmpty())

		cancel()
		g.Expect(AsFailure(<-done).Outcome()).To(Equal(terraform.OutcomeInterrupted))
	})
}

func TestSession_readsTheChangesOfAPlan(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		w, log := workdir(t, tool)
		module := func(name string) *terraform.Request {
			request := inline(`
variable "password" { sensitive = true }
variable "pin" { type = number }
variable "code" {}
resource "terraform_data" "a" {
  input            = { name = "` + name + `", password = var.password, token = "x-s3cr3t-and-long", pin = var.pin, code = var.code, both = "${var.code}-${var.pin}" }
  triggers_replace = ["` + name + `"]
}
output "name" { value = terraform_data.a.output.name }
`)
			request.Variables = values(map[string]string{"password": "correct horse " + name, "pin": "917", "code": "q7z"})
			request.SecretVariables = []string{"pin", "code"}
			request.Env, request.SecretEnv = map[string]string{"TOKEN": "s3cr3t-and-long"}, []string{"TOKEN"}
			return request
		}
		apply(t, w, module("one"))
		session := planned(ctx, t, w, module("two"))

		var found []change.Entry
		shown, err := session.ShowPlan(ctx, w.PlanFile())
		g.Expect(err).NotTo(HaveOccurred())
		defer shown.Close()
		g.Expect(shown.Changes(func(e change.Entry) error {
			found = append(found, e)
			return nil
		})).To(Succeed())

		g.Expect(found).To(HaveLen(2))
		g.Expect(found[0].Resource.Address).To(Equal("terraform_data.a"))
		g.Expect(found[0].Resource.Action).To(Equal(terraform.ActionReplace))
		g.Expect(found[1].Output.Name).To(Equal("name"))
		stored, err := json.Marshal(found)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(stored)).To(ContainSubstring(`"before":"one"`))
		g.Expect(string(stored)).To(ContainSubstring(`"replaces":true`))
		g.Expect(string(stored)).NotTo(ContainSubstring("correct horse"))
		g.Expect(string(stored)).NotTo(ContainSubstring("s3cr3t"))
		g.Expect(string(stored)).NotTo(Or(ContainSubstring("917"), ContainSubstring("q7z")), "a module does not declare all secrets as sensitive")
		g.Expect(log.String()).NotTo(ContainSubstring("correct horse"))
	})
}
