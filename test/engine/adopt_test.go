package engine

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

const (
	adoptedBefore = "resource \"terraform_data\" \"network\" {\n  input = \"a network\"\n}\n"
	adoptedAfter  = `variable "generation" {
  type = string
}

resource "terraform_data" "renamed" {
  input            = "a network"
  triggers_replace = var.generation == "" ? null : var.generation
}
`
)

// A state is taken over with a module whose addresses differ: nothing is destroyed or replaced in
// any stage, whoever approves it, and the resources stay when the workspace is released.
func TestAdopt_takesOverAStateInStages(t *testing.T) {
	w := newHarness(t)
	w.template("before", adoptedBefore)
	w.apply("before", "before")
	id := w.waitReady("before").Status.State.Lineage
	state := filepath.Join(t.TempDir(), "network.tfstate")
	w.Expect(w.captctl("state", "pull", "before", "--out", state).code).To(Equal(0))

	dir := t.TempDir()
	w.Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(adoptedAfter), 0o600)).To(Succeed())
	values := filepath.Join(dir, "values.json")
	w.Expect(os.WriteFile(values, []byte(`{"generation": ""}`), 0o600)).To(Succeed())
	command := []string{"adopt", "state", "net", "--module", dir, "--variables", values}
	// The manager of the tests filters by a label.
	printed := w.captctl(append(command, "--dry-run")...)
	w.Expect(printed.code).To(Equal(0), printed.err)
	objects, err := manifest.Parse([]byte(printed.out))
	w.Expect(err).NotTo(HaveOccurred())
	for _, obj := range objects {
		obj.SetNamespace(w.namespace)
		obj.SetLabels(map[string]string{clusterv1.WatchLabel: w.filter})
		w.create(obj)
	}
	adopt := func() result { return w.captctl(append(command, "--from", state, "--yes")...) }
	first := adopt()
	w.Expect(first.code).To(Equal(0), first.err)
	w.Expect(first.out).To(And(
		ContainSubstring("Pushed the state into net."), ContainSubstring("Would be destroyed, which an adoption refuses: 1\n  terraform_data.network\n"),
		ContainSubstring("moved {\n  from = terraform_data.network\n  to   = terraform_data.renamed\n}\n"),
	))
	w.Expect(w.get("net").Status.State.Lineage).To(Equal(id))
	again := adopt()
	w.Expect(again.code).To(Equal(0), again.err)
	w.Expect(again.out).NotTo(ContainSubstring("Pushed"), "the state is there")
	w.Expect(w.captctl("adopt", "commit", "net", "--yes").err).To(ContainSubstring("would destroy or replace resources"))

	// Not even a commit beside the command lets it be applied.
	w.change("net", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Adoption = infrav1.AdoptionCommit })
	w.Eventually(func(g Gomega) {
		g.Expect(w.waitReason("net", infrav1.AppliedCondition, infrav1.PolicyDeniedReason).Message).To(ContainSubstring("Adoption Commit, rule keeps"))
	}, testTimeout).Should(Succeed())
	w.Expect(w.captctl("approve", "net", "--yes").err).To(ContainSubstring("a policy denies plan"))

	w.changeTemplate("net", func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.Module = adoptedAfter + "\nmoved {\n  from = terraform_data.network\n  to   = terraform_data.renamed\n}\n\noutput \"id\" {\n  value = terraform_data.renamed.id\n}\n"
	})
	w.waitReason("net", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.captctl("adopt", "status", "net").out).To(And(ContainSubstring("Adoption of net: Commit\n"), ContainSubstring("captctl approve net")))
	w.Expect(w.captctl("approve", "net", "--yes", "--wait").code).To(Equal(0))
	w.waitReady("net")

	// A later change that replaces is refused until the adoption is complete.
	w.change("net", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["generation"] = infrav1.StringValue("2") })
	w.waitReason("net", infrav1.AppliedCondition, infrav1.PolicyDeniedReason)
	w.Expect(w.captctl("adopt", "complete", "net", "--yes").err).To(ContainSubstring("net is not applied yet"))
	w.change("net", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["generation"] = infrav1.StringValue("") })
	w.waitReady("net")
	w.Expect(w.captctl("adopt", "complete", "net", "--yes").code).To(Equal(0))
	w.Expect(w.captctl("adopt", "status", "net").out).To(ContainSubstring("Next: nothing"))

	w.Expect(w.captctl("adopt", "release", "net", "--yes").code).To(Equal(0))
	w.waitDeleted("net")
	w.Expect(w.secrets()).To(ContainElement("tfstate-default-net-ws"))
}
