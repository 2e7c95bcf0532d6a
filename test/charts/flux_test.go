package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

func sorted(versions []string) []string {
	slices.SortFunc(versions, func(a, b string) int {
		order, err := version.MustParseSemantic(a).Compare(b)
		if err != nil {
			panic(err)
		}
		return order
	})
	return versions
}

// flux installs the manifests of make addons and runs Flux's controllers, with further
// environment variables.
func (h *harness) flux(env ...string) {
	h.t.Helper()
	for _, obj := range h.objects(read(h, h.built("addons", "fluxcd.yaml"))) {
		if obj.GetKind() != "ConfigMap" {
			continue
		}
		data, _, err := unstructured.NestedStringMap(obj.Object, "data")
		h.Expect(err).NotTo(HaveOccurred())
		for _, manifests := range data {
			h.create(manifests)
		}
	}
	kubeconfig := append([]string{"KUBECONFIG=" + h.env.Kubeconfig, "RUNTIME_NAMESPACE=flux-system"}, env...)
	storage := h.port()
	h.start("source-controller", kubeconfig, "--storage-path="+h.t.TempDir(), "--storage-addr="+storage, "--storage-adv-addr="+storage,
		"--metrics-addr="+h.port(), "--health-addr="+h.port())
	h.start("helm-controller", kubeconfig, "--metrics-addr="+h.port(), "--health-addr="+h.port())
}

// release creates a HelmRelease of an add-on's chart from the local registry, and the
// Secret with an odd value for each output.
func (h *harness) release(addon *addonsv1.CAPTAddon, version string) {
	h.t.Helper()
	helm := addon.Spec.Helm
	secret := &corev1.Secret{StringData: map[string]string{}}
	secret.Name, secret.Namespace = "outputs", helm.Namespace
	var from []map[string]any
	for _, v := range helm.ValuesFrom {
		secret.StringData[v.ValuesKey] = odd(v.ValuesKey)
		from = append(from, map[string]any{
			"kind": "Secret", "name": "outputs", "valuesKey": v.ValuesKey, "targetPath": v.TargetPath, "literal": v.Mode == "Literal",
		})
	}
	h.Expect(h.env.Client.Create(h.ctx, secret)).To(Succeed())
	valuesFrom, err := yaml.Marshal(map[string]any{"valuesFrom": from})
	h.Expect(err).NotTo(HaveOccurred())
	h.create(fmt.Sprintf(`apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: chart, namespace: %[1]s}
spec:
  interval: 10s
  url: oci://%[2]s/charts/%[3]s
  insecure: true
  ref: {tag: %[4]s}
  layerSelector: {mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %[3]s, namespace: %[1]s}
spec:
  interval: 10s
  releaseName: %[3]s
  chartRef: {kind: OCIRepository, name: chart}
  install: {disableWait: true, crds: CreateReplace}
  upgrade: {disableWait: true, crds: CreateReplace}
  %[5]s`, helm.Namespace, h.charts, helm.Chart.Name, version, strings.ReplaceAll(strings.TrimSpace(string(valuesFrom)), "\n", "\n  ")))
}

// odd returns a value with special characters of Helm's --set.
func odd(key string) string { return `a,b={` + strings.ReplaceAll(key, "_", "-") + `}` }

// ready waits until a release has a version of its chart.
func (h *harness) ready(namespace, name, version string) {
	h.t.Helper()
	h.Eventually(func(g Gomega) {
		hr := &unstructured.Unstructured{}
		hr.SetGroupVersionKind(schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"})
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: namespace, Name: name}, hr)).To(Succeed())
		history, _, err := unstructured.NestedSlice(hr.Object, "status", "history")
		g.Expect(err).NotTo(HaveOccurred())
		conditions, _, err := unstructured.NestedSlice(hr.Object, "status", "conditions")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(history).NotTo(BeEmpty(), "conditions: %v", conditions)
		newest := history[0].(map[string]any)
		g.Expect(newest["chartVersion"]).To(HavePrefix(version), "conditions: %v", conditions)
		g.Expect(newest["status"]).To(Equal("deployed"), "conditions: %v", conditions)
	}, testTimeout).Should(Succeed(), "%s %s is deployed", name, version)
}

// Flux upgrades Karpenter through all packed versions, with the values of the built-in
// add-on, and the outputs are unchanged.
func TestFlux_upgradesKarpenterThroughAllCharts(t *testing.T) {
	h := newHarness(t)
	h.flux()
	addon := h.addon("karpenter")
	namespace := addon.Spec.Helm.Namespace
	h.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n")
	uid := ""
	for i, version := range h.versions("karpenter") {
		if i == 0 {
			h.release(addon, version)
		} else {
			repository := &unstructured.Unstructured{}
			repository.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"})
			repository.SetNamespace(namespace)
			repository.SetName("chart")
			patch := fmt.Appendf(nil, `{"spec":{"ref":{"tag":%q}}}`, version)
			h.Expect(h.env.Client.Patch(h.ctx, repository, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
		}
		h.ready(namespace, "karpenter", version)

		deployment := &appsv1.Deployment{}
		h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: namespace, Name: "karpenter"}, deployment)).To(Succeed())
		container := deployment.Spec.Template.Spec.Containers[0]
		h.Expect(container.Image).To(HaveSuffix(":" + version))
		for name, key := range map[string]string{
			"CLUSTER_NAME": "cluster_name", "CLUSTER_ENDPOINT": "cluster_endpoint", "INTERRUPTION_QUEUE": "karpenter_queue_name",
		} {
			h.Expect(container.Env).To(ContainElement(corev1.EnvVar{Name: name, Value: odd(key)}), "Karpenter %s", version)
		}
		account := &corev1.ServiceAccount{}
		h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: namespace, Name: "karpenter"}, account)).To(Succeed())
		h.Expect(account.Annotations).To(HaveKeyWithValue("eks.amazonaws.com/role-arn", odd("karpenter_irsa_role_arn")))
		if uid == "" {
			uid = string(deployment.UID)
		}
		h.Expect(string(deployment.UID)).To(Equal(uid), "an upgrade to %s replaced the Deployment", version)
	}
}

// A third add-on works without special handling.
func TestFlux_installsTheLoadBalancerController(t *testing.T) {
	h := newHarness(t)
	h.flux()
	addon := h.addon("aws-load-balancer-controller")
	h.release(addon, addon.Spec.Helm.Chart.Version)
	h.ready(addon.Spec.Helm.Namespace, addon.Spec.Helm.Chart.Name, addon.Spec.Helm.Chart.Version)
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: addon.Spec.Helm.Namespace, Name: addon.Name}
	h.Expect(h.env.Client.Get(h.ctx, key, deployment)).To(Succeed())
	h.Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElements(
		"--cluster-name="+odd("cluster_name"), "--aws-region="+odd("region"), "--aws-vpc-id="+odd("vpc_id")))
}
