package cluster

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// install creates the objects of a file of the repository.
func (w *harness) install(path string) {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, path))
	w.Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		w.Expect(err).NotTo(HaveOccurred(), path)
		if len(obj.Object) > 0 {
			w.create(obj)
		}
	}
}

// localTemplates installs the templates that need no cloud, and returns a name for a
// cluster whose processes are stopped at the end of the test.
func (w *harness) localTemplates() string {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() {
		left, _ := filepath.Glob("/tmp/capt-local-" + w.namespace + "-*")
		for _, dir := range left {
			out, err := exec.Command(filepath.Join(root, "bin", "localcluster"), "down", "--dir", dir).CombinedOutput()
			w.t.Logf("stopping %s: %v %s", dir, err, out)
		}
	})
	for _, name := range []string{"local-vpc", "local-controlplane", "local-node", "local-node-group"} {
		w.install("templates/" + name + ".yaml")
	}
	return w.namespace
}

// workload returns a client for a cluster, with the kubeconfig of its Secret.
func (w *harness) workload(name string) client.Client {
	w.t.Helper()
	secret := get(w, name+"-kubeconfig", &corev1.Secret{})
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	w.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: w.env.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// An upgrade over two minor versions runs the version in between, and the cluster
// keeps its data, its endpoint and its kubeconfig.
func TestLocal_upgradesMinorByMinor(t *testing.T) {
	w := newHarness(t)
	name := w.localTemplates()
	w.create(newCluster(name), newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.Version, s.WorkspaceTemplateRef.Name = "v1.35.2", "local-controlplane"
		}))
	cluster := w.waitReady(name)
	controlPlane := w.controlPlane(name)
	w.Expect(controlPlane.Status.Version).To(Equal("v1.35.2"), "the cloud chooses the patch")
	endpoint := controlPlane.Spec.ControlPlaneEndpoint
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	w.Expect(w.workload(name).Create(w.ctx, kept)).To(Succeed())

	change(w, name, &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.37.0" })

	seen := []string{}
	w.Eventually(func(g Gomega) {
		c := w.controlPlane(name)
		if v := c.Status.Version; !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
		g.Expect(text(conditionOf(c, infrav1.ReadyCondition))).To(HavePrefix("True"))
		g.Expect(c.Status.Version).To(Equal("v1.37.1"))
	}, testTimeout, "20ms").Should(Succeed())
	w.Expect(seen).To(Equal([]string{"v1.35.2", "v1.36.0", "v1.37.1"}))
	w.Expect(w.apply(name).Status.Runs).To(BeEquivalentTo(3), "one run for the creation and one for each minor")
	w.Expect(w.controlPlane(name).Spec.ControlPlaneEndpoint).To(Equal(endpoint))
	w.Expect(w.workload(name).Get(w.ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())

	err := w.env.Client.Patch(w.ctx, w.controlPlane(name), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"version":"v1.36.0"}}`)))
	w.Expect(err).To(MatchError(ContainSubstring("cannot be downgraded")))

	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(processesOf("capt-local-"+name)).To(BeEmpty(), "no process is still running")
}

// processesOf returns the command lines that contain a text.
func processesOf(part string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if line := strings.ReplaceAll(string(text), "\x00", " "); err == nil && strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}
