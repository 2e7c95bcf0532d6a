package template_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func fluxSource(name string) func(*template.Sources) {
	return templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.ForProvider.Source, w.ForProvider.Module, w.ForProvider.Entrypoint = infrav1.ModuleSourceFlux, "", "vpc"
		w.ForProvider.SourceRef = &infrav1.FluxSourceReference{Kind: "GitRepository", Name: name}
	})
}

func artifact(digest, revision string) func(*template.Sources) {
	return func(s *template.Sources) { s.Artifact = &terraform.Artifact{Digest: digest, Revision: revision} }
}

func TestResolve_takesTheArtifactOfAFluxSource(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, fluxSource("infra"), artifact("sha256:1", "main@sha1:1"), vars("size", "3"))
	g.Expect(inputs.Request.Module).To(Equal(terraform.Module{
		Source: terraform.SourceFlux, Entrypoint: "vpc",
		Artifact: &terraform.Artifact{Source: "GitRepository/infra", Digest: "sha256:1", Revision: "main@sha1:1"},
	}))
	g.Expect(inputs.Request.Variables).To(HaveKey("size"), "the runner knows the types")
	g.Expect(inputs.Request.Module.Origin().Artifact).To(Equal(&terraform.Artifact{Source: "GitRepository/infra"}))

	g.Expect(resolve(g, fluxSource("infra")).Request.Module.Artifact).To(Equal(&terraform.Artifact{Source: "GitRepository/infra"}), "the source is deleted")
}

func TestHash_dependsOnTheArtifactOnly(t *testing.T) {
	g := NewWithT(t)
	hash := func(name, digest, revision string) string {
		return hashOf(g, sources(fluxSource(name), artifact(digest, revision)))
	}
	before := hash("infra", "sha256:1", "main@sha1:1")
	g.Expect(hash("infra", "sha256:2", "main@sha1:1")).NotTo(Equal(before))
	g.Expect(hash("infra", "sha256:1", "main@sha1:2")).To(Equal(before), "a commit without a change of the files")
	g.Expect(hash("copy", "sha256:1", "main@sha1:1")).To(Equal(before), "another source with the same files")
}
