package runnertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// takesTheModuleFromAnArtifact stores the artifact of a Flux source in Secrets, as the
// manager does. It is too large for one of them. The content of the plan is applied, also
// if the artifact is deleted meanwhile.
func (f *fixture) takesTheModuleFromAnArtifact() {
	module := f.storedArtifact(map[string]string{"stack/main.tf": variables + resource("first", "", "one", "created first"), "padding": randomText(3 << 20)})
	plan := f.requestOf(terraform.OperationPlan, module)
	planned := f.finish(plan)
	f.Expect(planned.Outcome).To(gomega.Equal(terraform.OutcomePlanned), planned.Diagnostics.Short())
	f.Expect(planned.Module.Revision).To(gomega.Equal("main@sha1:1"))
	f.Expect(planned.Module.Archive).NotTo(gomega.BeEmpty())

	apply := f.requestOf(terraform.OperationApply, module)
	apply.Plan = &terraform.PlanRef{ID: planned.Plan.ID}
	apply.Module.Pin = planned.Module
	apply.Module.Artifact = &terraform.Artifact{Source: module.Artifact.Source, Digest: module.Artifact.Digest, Revision: module.Artifact.Revision}
	result := f.succeed(apply)
	f.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"one"`))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))

	forged := f.requestOf(terraform.OperationPlan, module)
	artifact := *module.Artifact
	artifact.Digest = "sha256:" + hex.EncodeToString(make([]byte, sha256.Size))
	forged.Module.Artifact = &artifact
	refused := f.finish(forged)
	f.Expect(refused.Outcome).To(gomega.Equal(terraform.OutcomeFailed))
	f.Expect(refused.Diagnostics.Short()).To(gomega.ContainSubstring("is not what the source provided"))
}

// requestOf returns the request of a new run of a module that is not inline.
func (f *fixture) requestOf(operation terraform.Operation, module terraform.Module) *terraform.Request {
	request := f.request(operation)
	request.Module = module
	return request
}

// storedArtifact stores an artifact with the files, and returns the module in its directory
// stack.
func (f *fixture) storedArtifact(files map[string]string) terraform.Module {
	f.t.Helper()
	var content bytes.Buffer
	zip := gzip.NewWriter(&content)
	archive := tar.NewWriter(zip)
	for name, text := range files {
		f.Expect(archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))})).To(gomega.Succeed())
		_, err := archive.Write([]byte(text))
		f.Expect(err).NotTo(gomega.HaveOccurred())
	}
	f.Expect(archive.Close()).To(gomega.Succeed())
	f.Expect(zip.Close()).To(gomega.Succeed())
	sum := sha256.Sum256(content.Bytes())
	digest := "sha256:" + hex.EncodeToString(sum[:])
	name := record.ModuleName(f.workspace, digest)
	secrets, err := record.Chunks(name, content.Bytes(), record.Meta(f.workspace, record.ComponentModule, f.id(f.count+1)))
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(len(secrets)).To(gomega.BeNumerically(">", 1))
	for _, secret := range secrets {
		f.Expect(f.Client.Create(f.t.Context(), secret)).To(gomega.Succeed())
	}
	return terraform.Module{Source: terraform.SourceFlux, Entrypoint: "stack", Artifact: &terraform.Artifact{
		Source: "GitRepository/infra", Digest: digest, Revision: "main@sha1:1", Archive: name,
	}}
}

// randomText returns a text of a size that cannot be compressed below half of it.
func randomText(size int) string {
	content := make([]byte, size/2)
	_, _ = rand.Read(content) // It never returns an error.
	return hex.EncodeToString(content)
}
