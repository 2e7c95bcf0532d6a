package template_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// selects selects the output id of the module under another name.
func selects(as string) func(*template.Sources) {
	return templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.Outputs = []infrav1.SelectedOutput{{Name: "id", As: infrav1.OutputName(as)}}
	})
}

func requires(names ...string) func(*template.Sources) {
	return func(s *template.Sources) { s.Apply.Spec.RequiredOutputs = names }
}

func TestResolve_selectsOutputs(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, selects("vpc_id"), requires("vpc_id"))
	g.Expect(inputs.Request.Outputs).To(ConsistOf("id"), "the module has the other name")
	g.Expect(inputs.Request.Selection).To(Equal(terraform.Selection{"vpc_id": "id"}))
	g.Expect(inputs.Hash).NotTo(Equal(resolve(g).Hash), "only a run returns the outputs under new names")
	g.Expect(resolve(g, selects("")).Request.Selection).To(Equal(terraform.Selection{"id": "id"}))

	_, err := template.Resolve(sources(selects("vpc_id"), requires("vpc_di", "id")))
	g.Expect(err).To(MatchError(`UnknownOutput: WorkspaceTemplate t does not select the required outputs vpc_di: did you mean "vpc_id"?, id`))
}

func TestSetDeclarations_listsSelectedOutputs(t *testing.T) {
	g := NewWithT(t)
	tpl := inline(module, selects("vpc_id"))
	g.Expect(template.SetDeclarations(tpl)).To(Succeed())
	g.Expect(tpl.Status.Outputs).To(ConsistOf(HaveField("Name", "vpc_id")))

	tpl = inline(`output "ids" { value = 1 }`, selects("vpc_id"))
	g.Expect(template.SetDeclarations(tpl)).To(MatchError(ContainSubstring(`outputs: the module has no output "id": did you mean "ids"?`)))
}
