package template_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestPolicy_keepsTheRequirementsOfTheResources(t *testing.T) {
	g := NewWithT(t)
	existing := func(s *template.Sources) {
		s.Apply.Status.State = &infrav1.StateStatus{Requirements: &infrav1.StateRequirements{
			Approval: infrav1.ApprovalManual, DestroyApproval: infrav1.ApprovalManual, Protect: []infrav1.ProtectPattern{"aws_vpc"},
		}}
	}
	weak := []func(*template.Sources){
		existing,
		templateSpec(func(w *infrav1.WorkspaceSpec) {
			w.Approval, w.DestroyApproval, w.Protect = infrav1.ApprovalAuto, infrav1.ApprovalAuto, []infrav1.ProtectPattern{"a.b"}
		}),
		applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.Approval, a.DestroyApproval = infrav1.ApprovalAuto, infrav1.ApprovalAuto
		}),
	}
	policy := template.PolicyOf(sources(weak...))
	g.Expect(policy).To(And(HaveField("Approval", infrav1.ApprovalManual), HaveField("DestroyApproval", infrav1.ApprovalManual)))
	g.Expect(resolve(g, weak...).Request.Protect).To(Equal([]string{"a.b", "aws_vpc"}))
	g.Expect(resolve(g, weak...).Hash).To(Equal(resolve(g, weak[1:]...).Hash), "they are not a part of the inputs")
}

func TestPolicy_hasTheRequirementsOfTheGuest(t *testing.T) {
	g := NewWithT(t)
	required := func(text string) func(*template.Sources) {
		return func(s *template.Sources) {
			s.Apply.Annotations = map[string]string{template.GuestRequirementsAnnotation: text}
		}
	}
	spec := &infrav1.WorkspaceTemplateApplySpec{Approval: infrav1.ApprovalAuto, DestroyApproval: infrav1.ApprovalAuto}
	g.Expect(template.SpecRequirements(spec)).To(BeEmpty())
	spec.Protect = []infrav1.ProtectPattern{"b.c", "a.b"}
	protects := required(template.SpecRequirements(spec))
	g.Expect(resolve(g, protects).Request.Protect).To(Equal([]string{"a.b", "b.c"}))
	g.Expect(template.PolicyOf(sources(protects))).To(And(HaveField("Approval", infrav1.ApprovalAuto), HaveField("DestroyApproval", infrav1.ApprovalAuto)))
	spec.Approval, spec.DestroyApproval = infrav1.ApprovalManual, infrav1.ApprovalManual
	for what, text := range map[string]string{"required": template.SpecRequirements(spec), "not readable": "{"} {
		g.Expect(template.PolicyOf(sources(required(text)))).To(And(HaveField("Approval", infrav1.ApprovalManual), HaveField("DestroyApproval", infrav1.ApprovalManual)), what)
	}
}

func TestRequirements_mergeAndCover(t *testing.T) {
	g := NewWithT(t)
	const manual = infrav1.ApprovalManual
	ref := func(name string) *infrav1.ObjectReference { return &infrav1.ObjectReference{Name: name} }
	a := &infrav1.StateRequirements{TemplateRef: ref("a"), Approval: manual, Protect: []infrav1.ProtectPattern{"x"}}
	b := &infrav1.StateRequirements{TemplateRef: ref("b"), DestroyApproval: manual, Protect: []infrav1.ProtectPattern{"y"}}
	both := template.MergeRequirements(a, b)
	g.Expect(both).To(Equal(&infrav1.StateRequirements{Approval: manual, DestroyApproval: manual, Protect: []infrav1.ProtectPattern{"x", "y"}}))
	g.Expect(template.MergeRequirements(a, a)).To(Equal(a))
	g.Expect(template.MergeRequirements(nil, b)).To(Equal(b))
	g.Expect(template.MergeRequirements(a, nil)).To(Equal(a))
	g.Expect(template.MergeRequirements(nil, nil)).To(BeNil())
	for _, weaker := range []*infrav1.StateRequirements{nil, {}, a, b, both} {
		g.Expect(template.Covers(both, weaker)).To(BeTrue())
	}
	for _, stricter := range []*infrav1.StateRequirements{b, both, {Protect: []infrav1.ProtectPattern{"y"}}, {DestroyApproval: manual}} {
		g.Expect(template.Covers(a, stricter)).To(BeFalse())
	}
	g.Expect(template.Covers(b, &infrav1.StateRequirements{Approval: manual})).To(BeFalse())
}

// A user who may change templates must not fill the list with other patterns.
func TestRequirements_keepKnownPatternsIfThereAreTooMany(t *testing.T) {
	g := NewWithT(t)
	patterns := func(prefix string, n int) *infrav1.StateRequirements {
		required := &infrav1.StateRequirements{}
		for i := range n {
			required.Protect = append(required.Protect, infrav1.ProtectPattern(fmt.Sprintf("%s_%03d", prefix, i)))
		}
		return required
	}
	known := template.MergeRequirements(&infrav1.StateRequirements{Protect: []infrav1.ProtectPattern{"z"}}, patterns("a", 64))
	g.Expect(known.Protect).To(HaveLen(65))
	g.Expect(template.MergeRequirements(known, patterns("b", 63)).Approval).To(BeEmpty(), "all of them fit")
	merged := template.MergeRequirements(known, patterns("b", 64))
	g.Expect(merged.Protect).To(HaveLen(128))
	g.Expect(template.Covers(merged, known)).To(BeTrue())
	g.Expect(merged.Approval).To(Equal(infrav1.ApprovalManual), "a user decides, because patterns are missing")
	g.Expect(merged.DestroyApproval).To(Equal(infrav1.ApprovalManual))
	g.Expect(template.MergeRequirements(merged, patterns("b", 64))).To(Equal(merged))
}
