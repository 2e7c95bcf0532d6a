// Package migration moves a running Karpenter from Terraform to Flux and back with
// captctl: real Cluster API, CAPT and OpenTofu, real Flux, the real chart, and the
// stand-in for Terraform's Helm provider, which installs charts with Helm's SDK. It runs
// only with CAPT_E2E=1 (`make test-migration`).
package migration

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = 2 * time.Minute

// harness is a management cluster with the files and programs of a user.
type harness struct {
	*WithT
	t                    *testing.T
	ctx                  context.Context
	captctl, base, addon string
	environment          *environment.Environment
	status               *environment.Status
	client               client.Client
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if os.Getenv("CAPT_E2E") != "1" {
		t.Skip("run `make test-migration`: the test requires the programs of Flux and the charts")
	}
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context()}
	var err error
	h.captctl, err = testenv.Built("captctl")
	h.Expect(err).NotTo(HaveOccurred())
	h.base, err = os.MkdirTemp("", "capt-migration-")
	h.Expect(err).NotTo(HaveOccurred())
	h.mirror()
	h.environment, err = environment.New("migration", h.base)
	h.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := exec.Command("tail", "-n", "12", h.environment.Log(environment.Manager)).Output()
			t.Logf("log of the manager:\n%s", log)
		}
		out, err := exec.Command(h.captctl, "down", "migration", "--dir", h.base, "--yes").CombinedOutput()
		if err != nil {
			t.Errorf("stopping the environment: %v: %s", err, out)
		}
		if err := os.RemoveAll(h.base); err != nil {
			t.Error(err)
		}
	})
	out, err := exec.CommandContext(h.ctx, h.captctl, "up", "migration", "--dir", h.base).CombinedOutput()
	h.Expect(err).NotTo(HaveOccurred(), string(out))
	h.status, err = h.environment.Status(h.ctx)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(h.status.Charts).NotTo(BeEmpty(), "run make addons first")
	h.client, err = h.environment.Client()
	h.Expect(err).NotTo(HaveOccurred())
	h.addons()
	return h
}

// mirror makes OpenTofu use the stand-in for the Helm provider.
func (h *harness) mirror() {
	h.t.Helper()
	config, err := testenv.MirrorProviders(h.base, testenv.HelmProvider)
	h.Expect(err).NotTo(HaveOccurred())
	h.t.Setenv("TF_CLI_CONFIG_FILE", config)
}

// addons writes the built-in add-ons with the charts of the local server.
func (h *harness) addons() {
	h.t.Helper()
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	h.addon = filepath.Join(h.base, "addons")
	h.Expect(os.MkdirAll(h.addon, 0o755)).To(Succeed())
	for _, name := range []string{"fluxcd", "karpenter"} {
		objects, err := environment.ReadManifests(filepath.Join(root, "bin", "addons", name+".yaml"))
		h.Expect(err).NotTo(HaveOccurred(), "run make addons first")
		var text bytes.Buffer
		for _, obj := range objects {
			if _, found, _ := unstructured.NestedMap(obj.Object, "spec", "helm"); found {
				h.Expect(unstructured.SetNestedField(obj.Object, "oci://"+h.status.Charts+"/charts", "spec", "helm", "chart", "repository")).To(Succeed())
				h.Expect(unstructured.SetNestedField(obj.Object, true, "spec", "helm", "chart", "insecure")).To(Succeed())
			}
			document, err := yaml.Marshal(obj.Object)
			h.Expect(err).NotTo(HaveOccurred())
			text.WriteString("---\n")
			text.Write(document)
		}
		h.Expect(os.WriteFile(filepath.Join(h.addon, name+".yaml"), text.Bytes(), 0o600)).To(Succeed())
	}
}

// template creates a template from the local one and a file.
func (h *harness) template(name, file string) {
	h.t.Helper()
	local := &infrav1.WorkspaceTemplate{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: "local-controlplane"}, local)).To(Succeed())
	made := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: environment.Namespace, Name: name}, Spec: *local.Spec.DeepCopy()}
	if file != "" {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		h.Expect(err).NotTo(HaveOccurred())
		made.Spec.Template.Spec.ForProvider.Module += "\n" + string(text)
	}
	h.Expect(h.client.Create(h.ctx, made)).To(Succeed())
}

// withUpgradeInstall replaces the import of a template with upgrade_install.
func (h *harness) withUpgradeInstall(name string) {
	h.t.Helper()
	found := &infrav1.WorkspaceTemplate{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, found)).To(Succeed())
	module := &found.Spec.Template.Spec.ForProvider.Module
	for _, block := range []string{"variable \"karpenter_import\" {", "import {"} {
		before, rest, cut := strings.Cut(*module, block)
		h.Expect(cut).To(BeTrue(), block)
		_, after, cut := strings.Cut(rest, "\n}\n")
		h.Expect(cut).To(BeTrue(), block)
		*module = before + after
	}
	*module = strings.Replace(*module, "wait = false", "wait = false\n  upgrade_install = true", 1)
	h.Expect(h.client.Update(h.ctx, found)).To(Succeed())
	h.Eventually(func(g Gomega) {
		g.Expect(h.client.Get(h.ctx, client.ObjectKeyFromObject(found), found)).To(Succeed())
		g.Expect(found.Status.ObservedGeneration).To(Equal(found.Generation))
	}, testTimeout, time.Second).Should(Succeed())
}

// cluster creates a cluster with the old template, and nodes for its pods.
func (h *harness) cluster(name string) {
	h.t.Helper()
	value := func(v any) infrav1.Value {
		text, err := json.Marshal(v)
		h.Expect(err).NotTo(HaveOccurred())
		return infrav1.Value{Raw: text}
	}
	meta := metav1.ObjectMeta{Namespace: environment.Namespace, Name: name}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name}
	infra := &infrav1.CAPTCluster{ObjectMeta: meta}
	infra.Spec.Region = "local"
	infra.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "local-vpc"}
	plane := &controlplanev1.CAPTControlPlane{ObjectMeta: meta}
	plane.Spec.Version = "v1.36.0"
	plane.Spec.WorkspaceTemplateRef.Name = "v1"
	plane.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	plane.Spec.Variables = map[string]infrav1.Value{
		"with":                 value([]string{"controller-manager", "scheduler", "kwok", "workloads"}),
		"karpenter_repository": value("oci://" + h.status.Charts + "/charts"),
	}
	for _, obj := range []client.Object{cluster, infra, plane} {
		h.Expect(h.client.Create(h.ctx, obj)).To(Succeed())
	}
	h.Eventually(func(g Gomega) {
		ready := conditions.Get(h.plane(g, name), infrav1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(string(ready.Status)).To(Equal("True"), ready.Message)
	}, testTimeout, time.Second).Should(Succeed(), "the control plane is ready")

	inside := h.workloadClient(name)
	for i := range 2 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		node.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		node.Labels = map[string]string{
			corev1.LabelHostname: node.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyZone: fmt.Sprintf("local-%d", i),
		}
		node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
		node.Status.Allocatable = node.Status.Capacity
		h.Expect(inside.Create(h.ctx, node)).To(Succeed())
	}
	h.Eventually(func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(inside.Get(h.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(*deployment.Spec.Replicas))
	}, testTimeout, time.Second).Should(Succeed(), "Karpenter is running")
}

func (h *harness) plane(g Gomega, name string) *controlplanev1.CAPTControlPlane {
	plane := &controlplanev1.CAPTControlPlane{}
	g.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, plane)).To(Succeed())
	return plane
}

func (h *harness) workspace(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	ws := &infrav1.WorkspaceTemplateApply{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, ws)).To(Succeed())
	return ws
}

// workloadClient returns a client of a workload cluster.
func (h *harness) workloadClient(name string) client.Client {
	h.t.Helper()
	kubeconfig := &corev1.Secret{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name + "-kubeconfig"}, kubeconfig)).To(Succeed())
	c, err := workload.Connector{Scheme: scheme.New()}.Client(kubeconfig.Data["value"])
	h.Expect(err).NotTo(HaveOccurred())
	return c
}

// identity returns the UIDs of Karpenter's Deployment and pods.
func (h *harness) identity(name string) []string {
	h.t.Helper()
	inside := h.workloadClient(name)
	deployment := &appsv1.Deployment{}
	h.Expect(inside.Get(h.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
	var pods corev1.PodList
	h.Expect(inside.List(h.ctx, &pods, client.InNamespace("karpenter"))).To(Succeed())
	var uids []string
	for i := range pods.Items {
		uids = append(uids, "pod "+string(pods.Items[i].UID))
	}
	h.Expect(uids).To(HaveLen(2))
	slices.Sort(uids)
	return append(uids, "deployment "+string(deployment.UID))
}

// inState reports whether Terraform's state of a cluster has the release.
func (h *harness) inState(name string) bool {
	h.t.Helper()
	secret := &corev1.Secret{}
	at := terraform.Backend{SecretSuffix: template.StateSuffix(name)}.StateSecretName()
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: at}, secret)).To(Succeed())
	reader, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	h.Expect(err).NotTo(HaveOccurred())
	var state struct {
		Resources []struct {
			Type string `json:"type"`
		} `json:"resources"`
	}
	h.Expect(json.NewDecoder(reader).Decode(&state)).To(Succeed())
	h.Expect(state.Resources).NotTo(BeEmpty())
	for _, r := range state.Resources {
		if r.Type == "helm_release" {
			return true
		}
	}
	return false
}

func (h *harness) command(args ...string) *exec.Cmd {
	all := append([]string{"migrate", "karpenter", "--kubeconfig", h.status.Kubeconfig, "--from", "v1", "--addons", h.addon}, args...)
	return exec.CommandContext(h.ctx, h.captctl, all...)
}

// run runs captctl migrate karpenter.
func (h *harness) run(args ...string) (string, error) {
	h.t.Helper()
	out, err := h.command(args...).CombinedOutput()
	h.t.Logf("captctl migrate karpenter %s\n%s", strings.Join(args, " "), out)
	return string(out), err
}

// kill runs the command and kills it some time after the start of a stage. It reports
// whether the stage was reached.
func (h *harness) kill(stage string, after time.Duration, args ...string) bool {
	h.t.Helper()
	cmd := h.command(args...)
	stderr, err := cmd.StderrPipe()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(cmd.Start()).To(Succeed())
	reached := false
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "… "+stage+":") {
			reached = true
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	h.t.Logf("killed %s after %s: %v", stage, after, err)
	return reached
}
