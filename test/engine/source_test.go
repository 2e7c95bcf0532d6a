package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// installKinds installs the kinds of Flux's sources.
func installKinds(w *harness) {
	w.t.Helper()
	w.Expect(fluxKinds()).To(Succeed())
}

// fluxKinds installs them once for all tests.
var fluxKinds = sync.OnceValue(func() error { return env.InstallFluxKinds() })

// source creates a source of Flux.
func (w *harness) source(kind, name, spec string) {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	w.Expect(yaml.Unmarshal(fmt.Appendf(nil, "apiVersion: source.toolkit.fluxcd.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", kind, name, w.namespace, spec), &obj.Object)).To(Succeed())
	w.create(obj)
}

func (w *harness) sourceKey(kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: kind})
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	return obj
}

// fluxModule makes a template use the module in the directory stack of a source.
func fluxModule(kind infrav1.FluxSourceKind, name string) func(*infrav1.WorkspaceSpec) {
	return func(s *infrav1.WorkspaceSpec) {
		s.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceFlux, SourceRef: &infrav1.FluxSourceReference{Kind: kind, Name: name}, Entrypoint: "stack"}
	}
}

// stack returns the files of a module with a module of the same source.
func stack(text string) map[string]string {
	return map[string]string{
		"stack/main.tf": `module "a" {
  source = "../shared"
}
output "a" { value = module.a.text }
`,
		"shared/main.tf": `resource "terraform_data" "a" { input = "` + text + `" }
output "text" { value = terraform_data.a.output }
`,
	}
}

// message returns the message of a condition.
func (w *harness) message(name, kind string) string {
	return objecttest.Condition(w.get(name), kind).Message
}

func (w *harness) output(name string) func() string {
	return func() string { return w.get(name).Status.Outputs["a"].String() }
}

// artifacts serves artifacts as source-controller does.
type artifacts struct {
	w      *harness
	server *httptest.Server
	files  sync.Map
}

func newArtifacts(t *testing.T) (*harness, *artifacts) {
	t.Helper()
	a := &artifacts{}
	a.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		content, found := a.files.Load(r.URL.Path)
		if !found {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(content.([]byte))
	}))
	t.Cleanup(a.server.Close)
	a.w = newHarnessWithManager(t, "--artifact-hosts="+strings.TrimPrefix(a.server.URL, "http://"))
	return a.w, a
}

// publish serves the files as the only artifact of a GitRepository, and sets its status.
func (a *artifacts) publish(name, revision string, files map[string]string) {
	a.w.t.Helper()
	a.files.Clear()
	content := archiveOf(a.w, files)
	sum := sha256.Sum256(content)
	path := fmt.Sprintf("gitrepository/%s/%s/%s.tar.gz", a.w.namespace, name, revision)
	a.files.Store("/"+path, content)
	obj := a.w.sourceKey("GitRepository", name)
	a.w.Expect(env.Client.Get(a.w.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	status, err := json.Marshal(map[string]any{"status": map[string]any{"observedGeneration": obj.GetGeneration(), "artifact": map[string]any{
		"url": a.server.URL + "/" + path, "path": path, "digest": "sha256:" + hex.EncodeToString(sum[:]), "revision": "main@sha1:" + revision,
		"lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}}})
	a.w.Expect(err).NotTo(HaveOccurred())
	a.w.Expect(env.Client.Status().Patch(a.w.ctx, obj, client.RawPatch("application/merge-patch+json", status))).To(Succeed())
}

// TestSource_newRevisionsArePlanned follows a GitRepository from a cluster without Flux to
// the deletion of the workspace, after the source and its artifacts are gone. The
// kinds are Flux's own; the test serves the artifacts and writes the status, in place of
// source-controller, which TestFlux_followsGit runs.
func TestSource_newRevisionsArePlanned(t *testing.T) {
	w, flux := newArtifacts(t)
	w.template("git", "", fluxModule("GitRepository", "infra"))
	w.apply("hello", "git", manual)
	w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForSourceReason)

	// Each state of the source is a message.
	waits := func(text string) {
		t.Helper()
		w.Eventually(func() string { return w.message("hello", infrav1.DependenciesReadyCondition) }, testTimeout).Should(ContainSubstring(text))
	}
	installKinds(w)
	// Without a watch the workspace would find Flux after a minute.
	w.annotate("hello", "touched", "1")
	waits("GitRepository " + w.namespace + "/infra does not exist: create it")
	w.source("GitRepository", "infra", "{interval: 1h, url: 'https://git.example.com/infra.git', ref: {branch: main}}")
	waits("has no artifact yet")

	// The first revision is planned, and what was planned is applied.
	flux.publish("infra", "1", stack("first"))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	first := w.get("hello").Status
	w.Expect(first.Module.Revision).To(Equal("main@sha1:1"))
	w.Expect(first.Module.Artifact).To(MatchRegexp("^sha256:[0-9a-f]{64}$"))
	flux.files.Clear()
	w.forgetDirectory("hello")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = first.Plan.ID })
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("first"), "after Flux has deleted the artifact")
	w.Expect(w.get("hello").Status.Module).To(Equal(first.Module))

	// A new revision is planned by itself.
	flux.publish("infra", "2", stack("second"))
	w.Eventually(func() string { return w.get("hello").Status.Module.Revision }, testTimeout).Should(Equal("main@sha1:2"))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	second := w.get("hello").Status
	w.Expect(second.Plan.ID).NotTo(Equal(first.Plan.ID))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = second.Plan.ID })
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("second"))
	w.waitReady("hello")

	// Only the content of the last plan is kept.
	w.Eventually(func() (modules []string) {
		for _, name := range w.secrets() {
			if strings.HasPrefix(name, "capt-module-") {
				modules = append(modules, name)
			}
		}
		return modules
	}, testTimeout).Should(ConsistOf("capt-" + second.Module.Archive + "-0"))

	// The source is deleted with its artifacts, and the workspace can be destroyed.
	flux.files.Clear()
	w.Expect(env.Client.Delete(w.ctx, w.sourceKey("GitRepository", "infra"))).To(Succeed())
	waits("does not exist")
	w.forgetDirectory("hello")
	w.destroy("hello")
}
