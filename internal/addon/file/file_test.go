package file_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	addonfile "github.com/appthrust/capt/internal/addon/file"
)

const karpenter = `
apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata:
  name: karpenter
spec:
  helm:
    chart: {repository: oci://public.ecr.aws/karpenter, name: karpenter, version: 1.14.1}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: karpenter-more
---
`

const flux = `{"apiVersion": "addons.cluster.x-k8s.io/v1beta1", "kind": "CAPTAddon", "metadata": {"name": "flux"}, "spec": {"manifests": []}}`

func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"karpenter.yaml": karpenter, "flux.yaml": flux, "other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "notes.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind_acceptsPathsAndBuiltInNames(t *testing.T) {
	dir := directory(t)
	for name, tc := range map[string]struct{ path, err string }{
		"karpenter":        {path: filepath.Join(dir, "karpenter.yaml")},
		"karpentr":         {err: `unknown add-on "karpentr": did you mean "karpenter"?`},
		"velero":           {err: `unknown add-on "velero": the built-in add-ons are flux, karpenter, other`},
		"./no.yaml":        {err: "no file ./no.yaml: give a file, or the name of a built-in add-on"},
		dir + "/flux.yaml": {path: filepath.Join(dir, "flux.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path, err := addonfile.Find(name, []string{dir})
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(path).To(Equal(tc.path))
		})
	}
	_, err := addonfile.Find("flux", []string{filepath.Join(dir, "none")})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("make addons")))
}

func TestDirectories_prefersTheGivenOne(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("CAPT_ADDONS", "/env")
	g.Expect(addonfile.Directories("/given")).To(Equal([]string{"/given"}))
	g.Expect(addonfile.Directories("")).To(HaveLen(2))
	g.Expect(addonfile.Directories("")[0]).To(Equal("/env"))
}

func TestRead_returnsAddonsLast(t *testing.T) {
	g := NewWithT(t)
	dir := directory(t)
	objects, err := addonfile.Read(filepath.Join(dir, "karpenter.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(2))
	g.Expect(objects[0].GetKind()).To(Equal("ConfigMap"))
	g.Expect(addonfile.IsAddon(objects[1])).To(BeTrue())

	one, err := addonfile.Read(filepath.Join(dir, "flux.yaml"))
	g.Expect(err).NotTo(HaveOccurred(), "a file may be JSON")
	g.Expect(one).To(HaveLen(1))

	_, err = addonfile.Read(filepath.Join(dir, "other.yaml"))
	g.Expect(err).To(MatchError(ContainSubstring("has no CAPTAddon")))
}

func TestOverrideChart_changesChartsOnly(t *testing.T) {
	g := NewWithT(t)
	dir := directory(t)
	objects, err := addonfile.Read(filepath.Join(dir, "karpenter.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(addonfile.OverrideChart(objects, addonfile.Chart{Repository: "oci://127.0.0.1:5000", Version: "1.9.0", Insecure: new(true)})).To(Succeed())
	g.Expect(objects[1].Object["spec"]).To(HaveKeyWithValue("helm", HaveKeyWithValue("chart", And(
		HaveKeyWithValue("repository", "oci://127.0.0.1:5000"), HaveKeyWithValue("version", "1.9.0"), HaveKeyWithValue("insecure", true), HaveKeyWithValue("name", "karpenter")))))

	g.Expect(addonfile.OverrideChart(append(objects, objects...), addonfile.Chart{Version: "1.9.0"})).To(MatchError(ContainSubstring("one by one")))

	manifests, err := addonfile.Read(filepath.Join(dir, "flux.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(addonfile.OverrideChart(manifests, addonfile.Chart{Version: "1.9.0"})).To(MatchError(ContainSubstring("none of the add-ons is a Helm chart")))
	g.Expect(addonfile.OverrideChart(manifests, addonfile.Chart{})).To(Succeed())
}
