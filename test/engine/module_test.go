package engine

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// commit moves the branch main of a repository to a commit with the module.
func (w *harness) commit(repo, module string) {
	w.Expect(os.MkdirAll(repo, 0o755)).To(Succeed())
	w.Expect(os.WriteFile(filepath.Join(repo, "main.tf"), []byte(module), 0o600)).To(Succeed())
	if _, err := os.Stat(filepath.Join(repo, ".git")); err != nil {
		w.git(repo, "init", "-q", "-b", "main")
	}
	w.git(repo, "add", ".")
	w.git(repo, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x")
}

// forgetDirectory removes the working directory of a workspace, which a pod never has.
func (w *harness) forgetDirectory(name string) {
	w.Expect(os.RemoveAll(filepath.Join(w.WorkDir, "workspaces", w.namespace, name))).To(Succeed())
}

// TestModule_whatWasPlannedIsApplied moves a branch between a plan and its approval.
// The plan of new resources, a retry and the destruction use what was resolved.
func TestModule_whatWasPlannedIsApplied(t *testing.T) {
	w := newHarness(t)
	repo := filepath.Join(w.dir, "repo")
	module := func(text string) string {
		return `variable "name" { default = "" }` + "\n" + `resource "terraform_data" "a" { input = "` + text + ` ${var.name}" }` + "\n" +
			`output "a" { value = terraform_data.a.output }` + "\n"
	}
	w.commit(repo, module("first"))
	w.template("git", "", func(s *infrav1.WorkspaceSpec) {
		s.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceRemote, Module: "git::file://" + repo + "?ref=main"}
	})
	w.apply("hello", "git", manual)
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	planned := w.get("hello").Status
	w.Expect(planned.Module.Revision).To(MatchRegexp("^[0-9a-f]{40}$"))
	w.Expect(w.secrets()).To(ContainElement("capt-" + planned.Module.Archive + "-0"))

	w.commit(repo, module("moved"))
	w.forgetDirectory("hello")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = planned.Plan.ID })
	applied := w.waitReady("hello")
	w.Expect(applied.Status.Outputs["a"].String()).To(Equal("first "))
	w.Expect(applied.Status.History[0].Operation).To(BeEquivalentTo("Apply"), "the approved plan was applied")
	w.Expect(applied.Status.Module).To(Equal(planned.Module))

	// New inputs resolve the address again.
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"name": infrav1.StringValue("x")}
	})
	w.Eventually(func() string { return w.get("hello").Status.Module.Digest }, testTimeout).ShouldNot(Equal(planned.Module.Digest))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	second := w.get("hello").Status
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = second.Plan.ID })
	w.Eventually(func() string { return w.get("hello").Status.Outputs["a"].String() }, testTimeout).Should(Equal("moved x"))
	w.Eventually(w.secrets, testTimeout).ShouldNot(ContainElement("capt-"+planned.Module.Archive+"-0"), "content that no run uses is deleted")

	// The repository is lost, and the workspace can be destroyed nevertheless.
	w.Expect(os.RemoveAll(repo)).To(Succeed())
	w.forgetDirectory("hello")
	w.destroy("hello")
}
