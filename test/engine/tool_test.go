package engine

import (
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTool_runsTheRequiredOne(t *testing.T) {
	w := newHarness(t)
	requires := func(name infrav1.ToolName, version string) func(*infrav1.WorkspaceSpec) {
		return func(s *infrav1.WorkspaceSpec) { s.Tool = &infrav1.ToolRequirement{Name: name, Version: version} }
	}
	w.template("old", greeting, requires(infrav1.ToolOpenTofu, "~> 1.6.0"))
	w.apply("old", "old", variables(map[string]string{"name": "world"}))
	missing := w.waitReason("old", infrav1.AppliedCondition, infrav1.ToolNotAvailableReason)
	w.Expect(missing.Message).To(And(ContainSubstring("requires OpenTofu ~> 1.6.0"), ContainSubstring("Available: OpenTofu 1.")))
	w.changeTemplate("old", requires(infrav1.ToolOpenTofu, "~> 1.6"))
	w.waitReady("old")
}

func TestTool_runsTerraform(t *testing.T) {
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("Terraform is not installed")
	}
	w := newHarness(t)
	w.template("other", greeting, func(s *infrav1.WorkspaceSpec) { s.Tool = &infrav1.ToolRequirement{Name: infrav1.ToolTerraform} })
	w.apply("other", "other", variables(map[string]string{"name": "world"}))
	ready := w.waitReady("other")
	w.Expect(w.log(ready.Status.History[0].ID)).To(MatchRegexp(`Terraform \d`))
}
