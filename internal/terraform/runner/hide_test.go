package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// applied returns a run that has applied a plan.
func applied() *execution {
	run := &execution{
		request: &terraform.Request{}, report: newReport(),
		result: &terraform.Result{Plan: &terraform.PlanSummary{ID: "plan-1"}, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying, Duration: time.Second}}},
	}
	_, _ = run.report.log.Write([]byte("planned\n"))
	run.report.log.mark()
	_, _ = run.report.log.Write([]byte("Error: hunter2 is too short\n"))
	return run
}

func messages(text string) terraform.Diagnostics {
	return terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: "creating", Detail: text, Address: "a.b"}}
}

func TestHideSensitive_masksErrorsAndWarnings(t *testing.T) {
	g := NewWithT(t)
	described := &description{mask: func(text string) string { return strings.ReplaceAll(text, "hunter2", "(sensitive value)") }}
	failure := &command.Failure{Diagnostics: messages("hunter2 is too short")}
	run := applied()
	run.description = described
	newRunner(Config{}, nil).hideSensitive(t.Context(), run, failure)
	g.Expect(failure.Diagnostics).To(Equal(messages("(sensitive value) is too short")))
	g.Expect(string(run.report.log.Bytes())).To(Equal("planned\nError: (sensitive value) is too short\n"))

	run = applied()
	run.description, run.result.Diagnostics = described, messages("hunter2 is deprecated")
	newRunner(Config{}, nil).hideSensitive(t.Context(), run, nil)
	g.Expect(run.result.Diagnostics).To(Equal(messages("(sensitive value) is deprecated")))
}

func TestHideSensitive_omitsWhatCannotBeMasked(t *testing.T) {
	g := NewWithT(t)
	run, diagnostics := applied(), messages("hunter2 is too short")
	run.hide(diagnostics, nil, errors.New("no space left"))
	g.Expect(diagnostics[0].Summary).To(Equal("creating"))
	g.Expect(diagnostics[0].Detail).To(Equal("The details are omitted, because sensitive values in them cannot be masked: no space left"))
	g.Expect(string(run.report.log.Bytes())).To(And(HavePrefix("planned\n"), ContainSubstring("is omitted"), Not(ContainSubstring("hunter2"))))
}

func TestHideSensitive_needsAPlan(t *testing.T) {
	run := applied()
	run.result.Plan = nil
	failure := &command.Failure{Diagnostics: messages("not found")}
	newRunner(Config{}, nil).hideSensitive(t.Context(), run, failure)
	NewWithT(t).Expect(failure.Diagnostics).To(Equal(messages("not found")), "that of a state command")
}
