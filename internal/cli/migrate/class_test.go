package migrate

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestNewClass_findsTheVariableOfTheTemplate(t *testing.T) {
	g := NewWithT(t)
	c := &clusterv1.ClusterClass{}
	c.Name = "eks"
	c.Spec.ControlPlane.TemplateRef.Name = "eks"
	g.Expect(newClass(c).variable).To(BeEmpty())
	g.Expect(newClass(c).advice("v2")).To(And(ContainSubstring("ClusterClass eks"), ContainSubstring(templatePath)))
	c.Spec.Patches = []clusterv1.ClusterClassPatch{{Definitions: []clusterv1.PatchDefinition{{
		Selector:    clusterv1.PatchSelector{Kind: "CAPTControlPlaneTemplate"},
		JSONPatches: []clusterv1.JSONPatch{{Op: "replace", Path: templatePath, ValueFrom: &clusterv1.JSONPatchValue{Variable: "template"}}},
	}}}}
	g.Expect(newClass(c).variable).To(Equal("template"))
}
