package charts

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

func read(h *harness, path string) string {
	h.t.Helper()
	text, err := os.ReadFile(path)
	h.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// tofu is a configuration with the stand-in for the Helm provider.
type tofu struct {
	*harness
	program, dir string
	env          []string
}

func (h *harness) tofu() *tofu {
	h.t.Helper()
	program, err := testenv.Part("tofu")
	h.Expect(err).NotTo(HaveOccurred())
	dir := h.t.TempDir()
	config, err := testenv.MirrorProviders(h.t.TempDir(), testenv.HelmProvider)
	h.Expect(err).NotTo(HaveOccurred())
	h.file(dir, "provider.tf", `terraform {
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.0"
    }
  }
}

provider "helm" {
  kubernetes = {
    config_path = %q
  }
}
`, h.env.Kubeconfig)
	t := &tofu{harness: h, program: program, dir: dir, env: append(os.Environ(), "TF_CLI_CONFIG_FILE="+config)}
	t.run("init")
	return t
}

func (t *tofu) run(args ...string) string {
	t.t.Helper()
	out, err := t.try(args...)
	t.Expect(err).NotTo(HaveOccurred(), out)
	return out
}

func (t *tofu) try(args ...string) (string, error) {
	cmd := exec.CommandContext(t.ctx, t.program, append(args, "-no-color")...)
	cmd.Dir, cmd.Env = t.dir, t.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const release = `resource "helm_release" "karpenter" {
  name             = "karpenter"
  namespace        = "karpenter"
  create_namespace = true
  repository       = "REPOSITORY"
  chart            = "karpenter"
  version          = "VERSION"
  wait             = false
  values           = [yamlencode({ settings = { clusterName = "demo" } })]
  set              = [{ name = "replicas", value = "3" }]
}
`

func (t *tofu) write(repository, version string) {
	t.t.Helper()
	t.file(t.dir, "main.tf", "%s", strings.NewReplacer("REPOSITORY", repository, "VERSION", version).Replace(release))
}

func (h *harness) karpenter() *appsv1.Deployment {
	h.t.Helper()
	deployment := &appsv1.Deployment{}
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
	return deployment
}

// The lifecycle of a helm_release, including removal from the state without
// uninstalling, and import.
func TestStandIn_installsUpgradesForgetsAdoptsAndUninstalls(t *testing.T) {
	h := newHarness(t)
	tf := h.tofu()

	tf.write("oci://"+h.charts+"/charts", "1.14.0")
	tf.run("apply", "-auto-approve")
	first := h.karpenter()
	h.Expect(*first.Spec.Replicas).To(BeEquivalentTo(3))
	h.Expect(first.Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "CLUSTER_NAME", Value: "demo"}))
	tf.run("plan", "-detailed-exitcode")

	tf.write("http://"+h.charts, "1.14.1")
	tf.run("apply", "-auto-approve")
	h.Expect(h.karpenter().Spec.Template.Spec.Containers[0].Image).To(HaveSuffix(":1.14.1"))

	tf.file(tf.dir, "main.tf", "removed {\n  from = helm_release.karpenter\n  lifecycle {\n    destroy = false\n  }\n}\n")
	h.Expect(tf.run("apply", "-auto-approve")).To(ContainSubstring("1 forgotten"))
	h.Expect(tf.run("state", "list")).To(BeEmpty())
	h.Expect(h.karpenter().UID).To(Equal(first.UID), "the release is still running")

	tf.write("http://"+h.charts, "1.14.1")
	tf.file(tf.dir, "import.tf", "import {\n  to = helm_release.karpenter\n  id = \"karpenter/karpenter\"\n}\n")
	h.Expect(tf.run("apply", "-auto-approve")).To(ContainSubstring("1 imported, 0 added"))
	h.Expect(h.karpenter().UID).To(Equal(first.UID), "the same release was imported")
	tf.run("plan", "-detailed-exitcode")

	tf.run("destroy", "-auto-approve")
	err := h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(first), &appsv1.Deployment{})
	h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got %v", err)
}

func TestStandIn_recreatesMissingRelease(t *testing.T) {
	h := newHarness(t)
	tf := h.tofu()
	tf.write("oci://"+h.charts+"/charts", "1.14.1")
	tf.run("apply", "-auto-approve")
	h.Expect(h.env.Client.DeleteAllOf(h.ctx, &corev1.Secret{}, client.InNamespace("karpenter"), client.MatchingLabels{"owner": "helm"})).To(Succeed())
	h.Expect(tf.run("plan")).To(ContainSubstring("Plan: 1 to add, 0 to change, 0 to destroy"))
}

func TestStandIn_namesMissingChart(t *testing.T) {
	h := newHarness(t)
	tf := h.tofu()
	tf.write("http://"+h.charts, "9.9.9")
	out, err := tf.try("apply", "-auto-approve")
	h.Expect(err).To(HaveOccurred())
	h.Expect(strings.Join(strings.Fields(out), " ")).To(ContainSubstring(`chart "karpenter" version "9.9.9" not found`))
}
