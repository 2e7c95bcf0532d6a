package environment

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	found, err := manifest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestReadManifests_readsFilesAndDirectories(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":   "---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n",
		"b.yaml":   "apiVersion: v1\nkind: C\nmetadata: {name: c}\n",
		"note.txt": "not: read",
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	g.Expect(ReadManifests(filepath.Join(dir, "a.yaml"))).To(HaveLen(2))
	g.Expect(ReadManifests(dir)).To(HaveLen(3))

	g.Expect(os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("kind: [\n"), 0o600)).To(Succeed())
	g.Expect(ReadManifests(dir)).Error().To(MatchError(ContainSubstring("c.yaml")))
	g.Expect(ReadManifests(filepath.Join(dir, "none.yaml"))).Error().To(MatchError(os.ErrNotExist))
}

func TestRedirectWebhooks_pointsToTheProgram(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	found := objects(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
- name: a
  clientConfig: {service: {name: s, namespace: n, path: /validate-a}}
`)
	g.Expect(redirectWebhooks(found, "capt-", webhookServer{url: "https://127.0.0.1:1234", ca: []byte("ca")})).To(Succeed())
	g.Expect(found[0].GetName()).To(Equal("capt-validating"))
	hooks, _, err := unstructured.NestedSlice(found[0].Object, "webhooks")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hooks[0]).To(HaveKeyWithValue("clientConfig", map[string]any{"url": "https://127.0.0.1:1234/validate-a", "caBundle": "Y2E="}))

	broken := objects(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: x}\nwebhooks: [{name: a}]\n")
	g.Expect(redirectWebhooks(broken, "", webhookServer{})).To(MatchError(ContainSubstring("no clientConfig")))
}

const twoVersions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things}
  versions:
  - {name: v1, storage: false}
  - {name: v2, storage: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: others.example.com}
spec:
  group: example.com
  names: {plural: others}
  versions:
  - {name: v1, storage: true}
`

func TestSetConversion_changesOnlyKindsOfSeveralVersions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	found := objects(t, twoVersions)
	g.Expect(setConversion(found, webhookServer{url: "https://127.0.0.1:1", ca: []byte("ca")})).To(Succeed())
	url, _, _ := unstructured.NestedString(found[0].Object, "spec", "conversion", "webhook", "clientConfig", "url")
	g.Expect(url).To(Equal("https://127.0.0.1:1/convert"))
	_, converted, _ := unstructured.NestedMap(found[1].Object, "spec", "conversion")
	g.Expect(converted).To(BeFalse())
}

func TestServedPaths_useTheStorageVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(servedPaths(objects(t, twoVersions))).To(Equal([]string{"/apis/example.com/v1/others?limit=1", "/apis/example.com/v2/things?limit=1"}))
}

func TestSetVariable_keepsOtherVariables(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	template := objects(t, "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplate\nmetadata: {name: x}\nspec: {template: {spec: {forProvider: {vars: [{key: a, value: b}]}}}}\n")[0]
	g.Expect(setVariable(template, "c", "d")).To(Succeed())
	vars, _, err := unstructured.NestedSlice(template.Object, "spec", "template", "spec", "forProvider", "vars")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(vars).To(Equal([]any{map[string]any{"key": "a", "value": "b"}, map[string]any{"key": "c", "value": "d"}}))
}

func TestNew_choosesTheDirectory(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("XDG_STATE_HOME", "/state")
	environment, err := New("demo", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Dir).To(Equal("/state/capt/demo"))
	g.Expect(environment.Kubeconfig()).To(Equal("/state/capt/demo/kubeconfig"))
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/me")
	environment, err = New("demo", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Dir).To(Equal("/home/me/.local/state/capt/demo"))
	for _, bad := range []string{"", "../x", "A", "a/b", ".", "-a"} {
		g.Expect(New(bad, "/base")).Error().To(MatchError(ContainSubstring("is not a valid environment name")), bad)
	}
}
