package file_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/appthrust/capt/addons"
	addonfile "github.com/appthrust/capt/internal/addon/file"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

const registry = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"

func objects(g *WithT, text string) []*unstructured.Unstructured {
	parsed, err := manifest.Parse([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	return parsed
}

func TestUseMirrors_replacesChartsAndImages(t *testing.T) {
	g := NewWithT(t)
	mirrors, err := addonfile.ParseMirrors([]string{"ghcr.io=" + registry + "/ghcr", "public.ecr.aws/=" + registry + "/ecr-public/"})
	g.Expect(err).NotTo(HaveOccurred())
	all := objects(g, `
apiVersion: v1
kind: ConfigMap
metadata: {name: controllers}
data:
  all.yaml: |
    # From ghcr.io/fluxcd.
    containers:
    - image: ghcr.io/fluxcd/helm-controller:v1.6.4
      args: [--from=ghcr.io/fluxcd]
    - name: b
      image: "ghcr.io.example.com/b"
---
apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata: {name: mine}
spec:
  manifests:
  - name: a
    inline: "image: 'ghcr.io/a'\n"
`)
	shipped, err := addons.Files.ReadFile("karpenter.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	all = append(all, objects(g, string(shipped))...)
	g.Expect(addonfile.UseMirrors(all, mirrors)).To(Succeed())

	text, _, _ := unstructured.NestedString(all[0].Object, "data", "all.yaml")
	g.Expect(text).To(Equal("# From ghcr.io/fluxcd.\ncontainers:\n- image: " + registry + "/ghcr/fluxcd/helm-controller:v1.6.4\n" +
		"  args: [--from=ghcr.io/fluxcd]\n- name: b\n  image: \"ghcr.io.example.com/b\"\n"))
	manifests, _, _ := unstructured.NestedSlice(all[1].Object, "spec", "manifests")
	g.Expect(manifests).To(ConsistOf(HaveKeyWithValue("inline", "image: '"+registry+"/ghcr/a'\n")))
	repository, _, _ := unstructured.NestedString(all[2].Object, "spec", "helm", "chart", "repository")
	g.Expect(repository).To(Equal("oci://" + registry + "/ecr-public/karpenter"))
	image, _, _ := unstructured.NestedString(all[2].Object, "spec", "helm", "values", "controller", "image", "repository")
	g.Expect(image).To(Equal(registry + "/ecr-public/karpenter/controller"))

	g.Expect(addonfile.UseMirrors(all, []addonfile.Mirror{{From: "quay.io", To: "a"}})).To(MatchError("no chart and no image of the add-ons comes from quay.io: remove the mirror"))
}

func TestParseMirrors_rejectsOtherForms(t *testing.T) {
	for _, text := range []string{"ghcr.io", "=a", "ghcr.io=", "oci://ghcr.io=a"} {
		_, err := addonfile.ParseMirrors([]string{text})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is not FROM=TO")), text)
	}
}
