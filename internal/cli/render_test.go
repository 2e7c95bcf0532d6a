package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestRender_printsTheObjects(t *testing.T) {
	g := NewWithT(t)
	out, problem, code := captctl(t, "", "render", "../../examples/cluster.yaml", "../../templates/vpc.yaml")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring("kind: WorkspaceTemplateApply\n"))
	g.Expect(out).To(ContainSubstring("nat_gateway: Single\n"))

	out, problem, code = captctl(t, "", "render", "-o", "json", "../../examples/workspace-inline.yaml")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring(`"workspace": "default/production"`))

	_, problem, code = captctl(t, goodAddon+"  unknown: 1\n", "render", "-")
	g.Expect(code).To(Equal(1))
	g.Expect(problem).To(Equal("the manifests are invalid"))

	_, problem, code = captctl(t, "", "render")
	g.Expect(code).To(Equal(2))
	g.Expect(problem).To(ContainSubstring("expected files or directories to render"))
}
