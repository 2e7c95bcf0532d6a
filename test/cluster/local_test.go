package cluster

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// install creates the objects of a file of the repository.
func (h *harness) install(path string) {
	h.t.Helper()
	content := testenv.ReadFile(h.t, path)
	objects, err := manifest.Parse(content)
	h.Expect(err).NotTo(HaveOccurred(), path)
	for _, obj := range objects {
		h.create(obj)
	}
}

// stopLocal stops the processes of the clusters of the namespace.
func (h *harness) stopLocal() {
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	left, _ := filepath.Glob("/tmp/capt-local-" + h.namespace + "-*")
	for _, dir := range left {
		out, err := exec.Command(filepath.Join(root, "bin", "localcluster"), "down", "--dir", dir).CombinedOutput()
		h.t.Logf("stopping %s: %v %s", dir, err, out)
	}
}

// localTemplates installs the templates that need no cloud, and returns a name for a
// cluster whose processes are stopped at the end of the test.
func (h *harness) localTemplates() string {
	h.t.Helper()
	h.t.Cleanup(h.stopLocal)
	for _, name := range []string{"local-vpc", "local-controlplane", "local-node", "local-node-group"} {
		h.install("templates/" + name + ".yaml")
	}
	return h.namespace
}

// workload returns a client for a cluster, with the kubeconfig of its Secret.
func (h *harness) workload(name string) client.Client {
	h.t.Helper()
	secret := get(h, name+"-kubeconfig", &corev1.Secret{})
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	h.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: h.env.Scheme})
	h.Expect(err).NotTo(HaveOccurred())
	return c
}

// An upgrade over two minor versions runs the version in between, and the cluster
// keeps its data, its endpoint and its kubeconfig.
func TestLocal_upgradesMinorByMinor(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	h.create(newCluster(name), newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.Version, s.WorkspaceTemplateRef.Name = "v1.35.2", "local-controlplane"
		}))
	cluster := h.waitReady(name)
	controlPlane := h.controlPlane(name)
	h.Expect(controlPlane.Status.Version).To(Equal("v1.35.2"), "the cloud chooses the patch")
	endpoint := controlPlane.Spec.ControlPlaneEndpoint
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	h.Expect(h.workload(name).Create(h.ctx, kept)).To(Succeed())

	changes, err := h.env.Watch(h.ctx, &controlplanev1.CAPTControlPlaneList{}, client.InNamespace(h.namespace))
	h.Expect(err).NotTo(HaveOccurred())
	defer changes.Stop()
	change(h, name, &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.37.0" })

	seen := []string{"v1.35.2"}
	for last := ""; last != "v1.37.1"; {
		var event watch.Event
		h.Eventually(changes.ResultChan(), testTimeout).Should(Receive(&event))
		controlPlane, ok := event.Object.(*controlplanev1.CAPTControlPlane)
		h.Expect(ok).To(BeTrue(), "%v", event.Object)
		last = controlPlane.Status.Version
		if !slices.Contains(seen, last) {
			seen = append(seen, last)
		}
	}
	h.Expect(seen).To(Equal([]string{"v1.35.2", "v1.36.0", "v1.37.1"}))
	h.waitReady(name)
	h.Expect(h.apply(name).Status.Runs).To(BeEquivalentTo(3), "one run for the creation and one for each minor")
	h.Expect(h.controlPlane(name).Spec.ControlPlaneEndpoint).To(Equal(endpoint))
	h.Expect(h.workload(name).Get(h.ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())

	err = h.env.Client.Patch(h.ctx, h.controlPlane(name), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"version":"v1.36.0"}}`)))
	h.Expect(err).To(MatchError(ContainSubstring("cannot be downgraded")))

	h.destroy(cluster)
	h.Expect(testenv.ProcessesOf("capt-local-"+name)).To(BeEmpty(), "no process is still running")
}
