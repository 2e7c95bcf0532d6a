package charts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	// publicChart is the address of the chart in the documentation.
	publicChart = "oci://ghcr.io/appthrust/charts/capt"
	// previousChart is the version of a chart that has other CRDs.
	previousChart = "0.0.1"
	// workspaces is the CRD that differs.
	workspaces = "workspacetemplateapplies.infrastructure.cluster.x-k8s.io"
)

// shortNames are those of the CRD that differs.
var shortNames = []string{"wsta", "ws", "workspace", "workspaces"}

// helmTest is an API server with cert-manager's CRDs, and a registry with two versions of
// the chart of CAPT.
type helmTest struct {
	*harness
	client client.Client
	// install, configure, uninstall and takeOver are the commands of docs/install.md,
	// upgrade that of docs/upgrading.md.
	install, configure, uninstall, takeOver, upgrade string
	// mirrors are the values of docs/install.md for the images of another registry.
	mirrors string
	// version is the version of the chart in these commands.
	version string
}

// The commands of the documentation install, upgrade and uninstall CAPT with the real
// Helm. Nothing runs behind the Deployment and the webhooks.
func TestCAPT_documentedHelmCommands(t *testing.T) {
	h := newHelmTest(t)
	const wrongOwner = "invalid ownership metadata"

	h.Expect(h.try(h.install)).To(MatchError(ContainSubstring(wrongOwner)), "the CRDs were left by another way of installing")
	h.helm(h.takeOver)
	h.Expect(h.run("kubectl", "get", "validatingadmissionpolicies", "capt-reserved-secrets")).Error().NotTo(HaveOccurred())
	h.Expect(h.workspaces().Spec.Names.ShortNames).To(Equal(shortNames))
	h.helm(h.uninstall)

	// Kubernetes remembers the other way.
	h.helm(previously(h.install, h.version), "--set", "replicas=3", "--force-conflicts")
	h.Expect(h.workspaces().Spec.Names.ShortNames).To(Equal(slices.Concat([]string{"previous"}, shortNames[1:])))
	h.helm(h.upgrade)
	h.Expect(h.workspaces().Spec.Names.ShortNames).To(Equal(shortNames), "an upgrade changes the CRDs")
	h.helm(h.configure)
	deployment := h.deployment()
	h.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)), "an upgrade keeps the values of the installation")
	container := deployment.Spec.Template.Spec.Containers[0]
	h.Expect(container.Image).To(Equal("ghcr.io/appthrust/capt:v" + h.version))
	h.Expect(container.Args).To(ContainElements("--max-runs=20", "--v=1"))
	h.Expect(h.try(h.configure, "--set", "flags.max-run=20")).To(MatchError(ContainSubstring("max-run")), "a wrong name is refused")

	h.helm(previously(h.upgrade, h.version), "--set", "crds.enabled=false")
	h.Expect(h.deployment().Spec.Template.Spec.Containers[0].Image).To(Equal("ghcr.io/appthrust/capt:v" + previousChart))
	h.Expect(h.workspaces().Spec.Names.ShortNames).To(Equal(shortNames), "going back does not change the CRDs")

	// Without webhooks, an object can be created.
	h.helm(h.uninstall)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "# Empty."}
	h.Expect(h.client.Create(h.ctx, template)).To(Succeed())

	h.helm(h.install+" "+h.mirrors, "--set", "certManager.enabled=false", "--set", "ui.enabled=true", "--set", "ui.tls=false", "--set", "ui.origin=https://capt.example.com")
	h.Expect(h.images()).To(HaveEach(HavePrefix("registry.example.com/appthrust/")))
	h.Expect(h.images()).To(ContainElements("registry.example.com/appthrust/capt:v"+h.version, "registry.example.com/appthrust/capt-ui:v"+h.version))
	h.helm(h.uninstall)
	err := h.client.Get(h.ctx, client.ObjectKey{Namespace: "capt-system", Name: "capt-controller-manager"}, &appsv1.Deployment{})
	h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	h.Expect(h.client.Get(h.ctx, client.ObjectKeyFromObject(template), template)).To(Succeed(), "CRDs and objects are kept")
	left, err := h.run("kubectl", "get", "validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings", "-o", "name")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(left).NotTo(ContainSubstring("/capt-"), "nothing else is")
}

// previously returns a command with the version of the previous chart.
func previously(command, version string) string {
	return strings.Replace(command, "--version "+version, "--version "+previousChart, 1)
}

func newHelmTest(t *testing.T) *helmTest {
	t.Helper()
	if os.Getenv("CAPT_TEST_CHARTS") != "1" {
		t.Skip("set CAPT_TEST_CHARTS=1 to install the chart of CAPT")
	}
	h := &helmTest{harness: &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), env: testenv.New(t, testenv.WithCRDs(""))}}
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	known := scheme.New()
	h.Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	h.Expect(appsv1.AddToScheme(known)).To(Succeed())
	h.client, err = client.New(h.env.Config, client.Options{Scheme: known})
	h.Expect(err).NotTo(HaveOccurred())
	h.readCommands(filepath.Join(root, "docs"))

	crds, err := testenv.CertManagerCRDs()
	h.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "cert-manager.yaml")
	h.Expect(os.WriteFile(file, crds, 0o600)).To(Succeed())
	h.Expect(h.run("kubectl", "apply", "--server-side", "-f", file, "-f", filepath.Join(root, "config", "crd", "bases"))).Error().NotTo(HaveOccurred())
	h.Expect(h.run("kubectl", "patch", "crd", workspaces, "--type=merge", "-p", `{"spec":{"names":{"shortNames":["other"]}}}`)).Error().NotTo(HaveOccurred())

	charts, previous := t.TempDir(), filepath.Join(t.TempDir(), "capt")
	h.pack(filepath.Join(root, "charts", "capt"), h.version, charts)
	h.Expect(os.CopyFS(previous, os.DirFS(filepath.Join(root, "charts", "capt")))).To(Succeed())
	path := filepath.Join(previous, "templates", "crds.yaml")
	text, err := os.ReadFile(path)
	h.Expect(err).NotTo(HaveOccurred())
	other := strings.Replace(string(text), "- wsta\n", "- previous\n", 1)
	h.Expect(other).NotTo(Equal(string(text)))
	h.Expect(os.WriteFile(path, []byte(other), 0o600)).To(Succeed())
	h.pack(previous, previousChart, charts)
	h.serve(charts)
	return h
}

// readCommands reads the commands of Helm in the blocks of the documentation.
func (h *helmTest) readCommands(docs string) {
	h.t.Helper()
	read := func(page string, commands ...*string) {
		text, err := os.ReadFile(filepath.Join(docs, page))
		h.Expect(err).NotTo(HaveOccurred())
		found := regexp.MustCompile(`(?m)^helm .*$`).FindAllString(string(text), -1)
		h.Expect(found).To(HaveLen(len(commands)), "this test runs every command of %s", page)
		for i := range commands {
			*commands[i] = found[i]
		}
	}
	read("install.md", &h.install, &h.configure, &h.uninstall, &h.takeOver)
	read("upgrading.md", &h.upgrade)
	page, err := os.ReadFile(filepath.Join(docs, "install.md"))
	h.Expect(err).NotTo(HaveOccurred())
	mirrors := regexp.MustCompile("(?m)^- \\*\\*Helm\\*\\*: `(--set [^`]+)`").FindStringSubmatch(string(page))
	h.Expect(mirrors).NotTo(BeNil(), "install.md has the values for another registry")
	h.mirrors = mirrors[1]
	match := regexp.MustCompile(`--version (\S+)`).FindStringSubmatch(h.install)
	h.Expect(match).NotTo(BeNil())
	h.version = match[1]
	h.Expect(h.upgrade).To(ContainSubstring("--version X.Y.Z "), "the page leaves the version to the reader")
	h.upgrade = strings.Replace(h.upgrade, "X.Y.Z", h.version, 1)
}

// pack packs a chart with a version into a directory.
func (h *helmTest) pack(chart, version, dir string) {
	h.t.Helper()
	out := h.t.TempDir()
	h.Expect(h.run("charts", "package", "--chart", chart, "--version", version, "--out", out)).Error().NotTo(HaveOccurred())
	h.Expect(os.CopyFS(dir, os.DirFS(out))).To(Succeed())
}

// helm runs a command of the documentation with the chart of the test.
func (h *helmTest) helm(command string, more ...string) {
	h.t.Helper()
	h.Expect(h.try(command, more...)).To(Succeed())
}

func (h *helmTest) try(command string, more ...string) error {
	if local := strings.Replace(command, publicChart, "oci://"+h.charts+"/charts/capt", 1); local != command {
		command = local + " --plain-http"
	}
	words := append(strings.Fields(command), more...)
	out, err := h.run(words[0], words[1:]...)
	h.t.Logf("%s\n%s", strings.Join(words, " "), out)
	return err
}

func (h *helmTest) workspaces() *apiextensionsv1.CustomResourceDefinition {
	h.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Name: workspaces}, crd)).To(Succeed())
	return crd
}

func (h *helmTest) deployment() *appsv1.Deployment {
	h.t.Helper()
	deployment := &appsv1.Deployment{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: "capt-system", Name: "capt-controller-manager"}, deployment)).To(Succeed())
	return deployment
}

// images returns the images of all Deployments, and that of the runs.
func (h *helmTest) images() []string {
	h.t.Helper()
	deployments := &appsv1.DeploymentList{}
	h.Expect(h.client.List(h.ctx, deployments, client.InNamespace("capt-system"))).To(Succeed())
	var images []string
	for i := range deployments.Items {
		container := deployments.Items[i].Spec.Template.Spec.Containers[0]
		images = append(images, container.Image)
		for _, variable := range container.Env {
			if variable.Name == "RUNNER_IMAGE" {
				images = append(images, variable.Value)
			}
		}
	}
	return images
}

// run runs a third-party program and returns its output, which is part of the error.
func (h *helmTest) run(part string, args ...string) (string, error) {
	h.t.Helper()
	program, err := testenv.Part(part)
	h.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(h.ctx, program, args...)
	home := filepath.Join(h.env.Dir, "helm")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.env.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", part, args[0], err, out)
	}
	return string(out), nil
}
