package aws

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// fluxAPI is an add-on with the name of Flux and its kinds, without its controllers: no
// pods run here. `make test-charts` runs them with charts in private registries.
func fluxAPI() string {
	var definitions strings.Builder
	for _, k := range []struct{ kind, plural, group, version string }{
		{"HelmRelease", "helmreleases", "helm", "v2"},
		{"HelmRepository", "helmrepositories", "source", "v1"},
		{"OCIRepository", "ocirepositories", "source", "v1"},
	} {
		fmt.Fprintf(&definitions, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s.toolkit.fluxcd.io}
spec:
  group: %[2]s.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s}
  versions:
  - name: %[4]s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, k.plural, k.group, k.kind, k.version)
	}
	crds, _ := json.Marshal(definitions.String())
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: fluxcd-crds}
data: {crds.yaml: %s}
---
apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata: {name: fluxcd}
spec:
  clusterSelector: {matchLabels: {fluxcd.io/enabled: "true"}}
  manifests:
  - name: crds
    configMapRef: {name: fluxcd-crds}
  readiness:
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: helmreleases.helm.toolkit.fluxcd.io}
  deletionPolicy: Leave
`, crds)
}

// installPrivateCharts applies examples/addon-private-chart.yaml, and expects that the
// cluster gets the sources of the charts with their Secrets.
func (m *management) installPrivateCharts(server *apiServer) {
	m.t.Helper()
	top, err := testenv.Root()
	m.Expect(err).NotTo(HaveOccurred())
	example, err := os.ReadFile(filepath.Join(top, "examples", "addon-private-chart.yaml"))
	m.Expect(err).NotTo(HaveOccurred())
	for _, text := range []string{fluxAPI(), string(example)} {
		objects, err := manifest.Parse([]byte(text))
		m.Expect(err).NotTo(HaveOccurred())
		for _, obj := range objects {
			m.create(obj)
		}
	}
	cluster := &clusterv1.Cluster{}
	cluster.Name = m.cluster
	m.change(cluster, func() {
		cluster.Labels = map[string]string{"fluxcd.io/enabled": "true", "example.com/internal-tools": "true"}
	})

	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(server.dir, "kubeconfig"))
	m.Expect(err).NotTo(HaveOccurred())
	workload, err := client.New(config, client.Options{})
	m.Expect(err).NotTo(HaveOccurred())
	source := func(g Gomega, name string) map[string]any {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"})
		g.Expect(workload.Get(m.t.Context(), client.ObjectKey{Namespace: name, Name: name}, obj)).To(Succeed())
		spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
		return spec
	}
	m.Eventually(func(g Gomega) {
		agent := source(g, "internal-agent")
		g.Expect(agent).To(HaveKeyWithValue("provider", "aws"))
		tools := source(g, "internal-tools")
		for field, key := range map[string]string{"secretRef": corev1.DockerConfigJsonKey, "certSecretRef": "ca.crt", "proxySecretRef": "address"} {
			name, _, _ := unstructured.NestedString(tools, field, "name")
			secret := &corev1.Secret{}
			g.Expect(workload.Get(m.t.Context(), client.ObjectKey{Namespace: "internal-tools", Name: name}, secret)).To(Succeed(), field)
			g.Expect(secret.Data).To(HaveKey(key), field)
		}
	}, testTimeout, time.Second).Should(Succeed())
}
