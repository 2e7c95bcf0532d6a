package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

func read(w *harness, path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	w.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// tofu is a configuration with the stand-in for the Helm provider.
type tofu struct {
	*harness
	program, dir string
	env          []string
}

func (w *harness) tofu() *tofu {
	w.t.Helper()
	program, err := testenv.Part("tofu")
	w.Expect(err).NotTo(HaveOccurred())
	standIn, err := testenv.Part("terraform-provider-helm-standin")
	w.Expect(err).NotTo(HaveOccurred())
	dir, mirror := w.t.TempDir(), w.t.TempDir()
	at := filepath.Join(mirror, "registry.opentofu.org", "hashicorp", "helm", "3.0.2", runtime.GOOS+"_"+runtime.GOARCH)
	w.Expect(os.MkdirAll(at, 0o755)).To(Succeed())
	w.Expect(os.Symlink(standIn, filepath.Join(at, "terraform-provider-helm_v3.0.2"))).To(Succeed())
	w.file(dir, "tofurc", "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	w.file(dir, "provider.tf", `terraform {
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
`, w.env.Kubeconfig)
	t := &tofu{harness: w, program: program, dir: dir, env: append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "tofurc"))}
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

func (w *harness) karpenter() *appsv1.Deployment {
	w.t.Helper()
	deployment := &appsv1.Deployment{}
	w.Expect(w.env.Client.Get(w.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
	return deployment
}

// The life of a helm_release, with the turn that a migration to Flux takes: the
// release is forgotten without being uninstalled, and taken back.
func TestStandIn_installsUpgradesForgetsAdoptsAndUninstalls(t *testing.T) {
	w := newHarness(t)
	tf := w.tofu()

	tf.write("oci://"+w.charts+"/charts", "1.14.0")
	tf.run("apply", "-auto-approve")
	first := w.karpenter()
	w.Expect(*first.Spec.Replicas).To(BeEquivalentTo(3))
	w.Expect(first.Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "CLUSTER_NAME", Value: "demo"}))
	tf.run("plan", "-detailed-exitcode")

	tf.write("http://"+w.charts, "1.14.1")
	tf.run("apply", "-auto-approve")
	w.Expect(w.karpenter().Spec.Template.Spec.Containers[0].Image).To(HaveSuffix(":1.14.1"))

	tf.file(tf.dir, "main.tf", "removed {\n  from = helm_release.karpenter\n  lifecycle {\n    destroy = false\n  }\n}\n")
	w.Expect(tf.run("apply", "-auto-approve")).To(ContainSubstring("1 forgotten"))
	w.Expect(tf.run("state", "list")).To(BeEmpty())
	w.Expect(w.karpenter().UID).To(Equal(first.UID), "the release still runs")

	tf.write("http://"+w.charts, "1.14.1")
	tf.file(tf.dir, "import.tf", "import {\n  to = helm_release.karpenter\n  id = \"karpenter/karpenter\"\n}\n")
	w.Expect(tf.run("apply", "-auto-approve")).To(ContainSubstring("1 imported, 0 added"))
	w.Expect(w.karpenter().UID).To(Equal(first.UID), "the same release was taken back")
	tf.run("plan", "-detailed-exitcode")

	tf.run("destroy", "-auto-approve")
	err := w.env.Client.Get(w.ctx, client.ObjectKeyFromObject(first), &appsv1.Deployment{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got %v", err)
}

func TestStandIn_recreatesAReleaseThatIsGone(t *testing.T) {
	w := newHarness(t)
	tf := w.tofu()
	tf.write("oci://"+w.charts+"/charts", "1.14.1")
	tf.run("apply", "-auto-approve")
	w.Expect(w.env.Client.DeleteAllOf(w.ctx, &corev1.Secret{}, client.InNamespace("karpenter"), client.MatchingLabels{"owner": "helm"})).To(Succeed())
	w.Expect(tf.run("plan")).To(ContainSubstring("Plan: 1 to add, 0 to change, 0 to destroy"))
}

func TestStandIn_saysWhichChartIsMissing(t *testing.T) {
	w := newHarness(t)
	tf := w.tofu()
	tf.write("http://"+w.charts, "9.9.9")
	out, err := tf.try("apply", "-auto-approve")
	w.Expect(err).To(HaveOccurred())
	w.Expect(strings.Join(strings.Fields(out), " ")).To(ContainSubstring(`chart "karpenter" version "9.9.9" not found`))
}
