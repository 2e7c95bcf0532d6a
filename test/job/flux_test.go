package job

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// artifact returns the archive of a module, as source-controller stores it.
func (h *harness) artifact(module string) []byte {
	h.t.Helper()
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)
	h.Expect(archive.WriteHeader(&tar.Header{Name: "stack/main.tf", Mode: 0o600, Size: int64(len(module))})).To(Succeed())
	h.Expect(archive.Write([]byte(module))).Error().NotTo(HaveOccurred())
	h.Expect(archive.Close()).To(Succeed())
	h.Expect(compressed.Close()).To(Succeed())
	return content.Bytes()
}

// A pod does not reach source-controller: the manager stores the artifact, and the run has
// access to exactly that. make test-flux has the real source-controller.
func TestManager_runsJobsWithTheModuleOfAFluxSource(t *testing.T) {
	var content []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(server.Close)
	h := newHarness(t, "--artifact-hosts="+strings.TrimPrefix(server.URL, "http://"))
	content = h.artifact(module)
	h.Expect(h.env.InstallFluxKinds()).To(Succeed())

	source := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": map[string]any{"name": "infra"},
		"spec": map[string]any{"url": "https://git.example.com/infra", "interval": "1m"},
	}}
	h.create(source)
	now, path := metav1.Now().UTC().Format(time.RFC3339), "gitrepository/"+h.namespace+"/infra/0123.tar.gz"
	source.Object["status"] = map[string]any{
		"observedGeneration": int64(1),
		"artifact": map[string]any{
			"path": path, "url": server.URL + "/" + path, "revision": "main@sha1:0123456789012345678901234567890123456789",
			"digest": fmt.Sprintf("sha256:%x", sha256.Sum256(content)), "lastUpdateTime": now, "size": int64(len(content)),
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored", "lastTransitionTime": now, "observedGeneration": int64(1)}},
	}
	h.Expect(h.env.Client.Status().Update(h.ctx, source)).To(Succeed())

	h.create(&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{
		ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceFlux, SourceRef: &infrav1.FluxSourceReference{Kind: "GitRepository", Name: "infra"}, Entrypoint: "stack"},
	}}}})
	h.create(apply("hello"))
	h.waitMessage("hello", infrav1.ReadyCondition, HavePrefix("True"))
	status := h.get("hello").Status
	h.Expect(status.Module.Revision).To(Equal("main@sha1:0123456789012345678901234567890123456789"))
	output := status.Outputs["greeting"]
	h.Expect(output.String()).To(Equal("hello node"))

	// The last artifact stays usable, also to destroy what it has created.
	h.Expect(h.env.Client.Delete(h.ctx, source)).To(Succeed())
	h.Expect(h.env.Client.Delete(h.ctx, h.get("hello"))).To(Succeed())
	h.Eventually(h.workspaces, testTimeout, 50*time.Millisecond).Should(BeEmpty())
}

func (h *harness) workspaces() []infrav1.WorkspaceTemplateApply {
	var list infrav1.WorkspaceTemplateApplyList
	h.Expect(h.env.Client.List(h.ctx, &list)).To(Succeed())
	return list.Items
}
