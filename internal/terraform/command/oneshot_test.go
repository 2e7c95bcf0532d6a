package command

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

const twoThings = `
resource "terraform_data" "a" { input = "a" }
resource "terraform_data" "b" { input = "b" }
`

func TestPlan_withOptionsOfAOneShotOperation(t *testing.T) {
	t.Parallel()
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w, _ := workdir(t, tool)
		session, err := Prepare(t.Context(), w, inline(twoThings))
		g.Expect(err).NotTo(HaveOccurred())

		once := terraform.OneShot{Import: []terraform.Import{{Address: "terraform_data.b", ID: `x"${y}%{z}\`}}}
		plan, err := session.Plan(t.Context(), PlanOptions{Out: w.PlanFile(), Import: once.ImportBlocks()})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.Summary.Import).To(Equal(1))
		g.Expect(plan.Summary.Add).To(Equal(1))
		g.Expect(filepath.Join(session.Root, importsFile)).NotTo(BeAnExistingFile(), "the next plan imports nothing")
		_, err = session.Apply(t.Context(), w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred(), "the saved plan has the import")
		state, err := session.StatePull(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(state)).To(ContainSubstring(`x\"${y}%{z}\\`))

		plan, err = session.Plan(t.Context(), PlanOptions{Out: w.PlanFile(), Replace: []string{"terraform_data.a"}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.Summary.Changes).To(ConsistOf(And(HaveField("Address", "terraform_data.a"), HaveField("Action", terraform.ActionReplace))))
		plan, err = session.Plan(t.Context(), PlanOptions{Out: w.PlanFile(), RefreshOnly: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.HasChanges).To(BeFalse())

		// A plan that was killed left the import blocks.
		g.Expect(os.WriteFile(filepath.Join(session.Root, importsFile), once.ImportBlocks(), 0o600)).To(Succeed())
		session, err = Prepare(t.Context(), w, inline(twoThings))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Join(session.Root, importsFile)).NotTo(BeAnExistingFile())
	})
}
