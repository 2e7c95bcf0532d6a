package workspacetemplate

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func scopeOf(source infrav1.ModuleSource, module string) *scope {
	template := &infrav1.WorkspaceTemplate{}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: source, Module: module}
	return &scope{template: template}
}

func TestModule_stallsOnAnInvalidModule(t *testing.T) {
	g := NewWithT(t)

	stalled, ok := fault.AsStalled(module(t.Context(), scopeOf(infrav1.ModuleSourceInline, "variable \"name\" {\n")))

	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Reason).To(Equal(infrav1.ModuleInvalidReason))
	g.Expect(stalled.Message()).To(HavePrefix("main.tf:1: Unclosed configuration block"))
}

func TestModule_reportsHowItIsInspected(t *testing.T) {
	g := NewWithT(t)

	inline := scopeOf(infrav1.ModuleSourceInline, `variable "name" {}`)
	g.Expect(module(t.Context(), inline)).To(Succeed())
	g.Expect(inline.template.Status.Variables).To(ConsistOf(HaveField("Name", "name")))
	g.Expect(moduleReason(inline)).To(Equal("Inspected"))
	g.Expect(moduleMessage(inline)).To(BeEmpty())

	remote := scopeOf(infrav1.ModuleSourceRemote, "git::https://example.com/network.git")
	g.Expect(module(t.Context(), remote)).To(Succeed())
	g.Expect(moduleReason(remote)).To(Equal("InspectedByRun"))
	g.Expect(moduleMessage(remote)).To(ContainSubstring("the run that fetches it"))
}
