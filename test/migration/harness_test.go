// Package migration moves a running Karpenter from Terraform to Flux and back,
// with captctl as a user calls it: real Cluster API, CAPT and OpenTofu, real Flux,
// the real chart, and the stand-in for Terraform's Helm provider, which installs
// by Helm's SDK. It runs only with CAPT_E2E=1 (`make test-migration`).
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
	"runtime"
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

// harness is a management cluster and what a user has.
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
		t.Skip("run `make test-migration`: it needs the programs of Flux and the charts")
	}
	w := &harness{WithT: NewWithT(t), t: t, ctx: t.Context()}
	var err error
	w.captctl, err = testenv.Built("captctl")
	w.Expect(err).NotTo(HaveOccurred())
	w.base, err = os.MkdirTemp("", "capt-migration-")
	w.Expect(err).NotTo(HaveOccurred())
	w.mirror()
	w.environment, err = environment.New("migration", w.base)
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := exec.Command("tail", "-n", "12", w.environment.Log(environment.Manager)).Output()
			t.Logf("the manager said:\n%s", log)
		}
		out, err := exec.Command(w.captctl, "down", "migration", "--dir", w.base).CombinedOutput()
		if err != nil {
			t.Errorf("ending the environment: %v: %s", err, out)
		}
		if err := os.RemoveAll(w.base); err != nil {
			t.Error(err)
		}
	})
	out, err := exec.CommandContext(w.ctx, w.captctl, "up", "migration", "--dir", w.base).CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), string(out))
	w.status, err = w.environment.Status(w.ctx)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.status.Charts).NotTo(BeEmpty(), "run make addons first")
	w.client, err = w.environment.Client()
	w.Expect(err).NotTo(HaveOccurred())
	w.addons()
	return w
}

// mirror has OpenTofu take the stand-in for the Helm provider.
func (w *harness) mirror() {
	w.t.Helper()
	standIn, err := testenv.Part("terraform-provider-helm-standin")
	w.Expect(err).NotTo(HaveOccurred())
	mirror := filepath.Join(w.base, "mirror")
	at := filepath.Join(mirror, "registry.opentofu.org", "hashicorp", "helm", "3.0.2", runtime.GOOS+"_"+runtime.GOARCH)
	w.Expect(os.MkdirAll(at, 0o755)).To(Succeed())
	w.Expect(os.Symlink(standIn, filepath.Join(at, "terraform-provider-helm_v3.0.2"))).To(Succeed())
	config := filepath.Join(w.base, "tofurc")
	w.Expect(os.WriteFile(config, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600)).To(Succeed())
	w.t.Setenv("TF_CLI_CONFIG_FILE", config)
}

// addons writes the built add-ons with the local server of charts.
func (w *harness) addons() {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	w.addon = filepath.Join(w.base, "addons")
	w.Expect(os.MkdirAll(w.addon, 0o755)).To(Succeed())
	for _, name := range []string{"fluxcd", "karpenter"} {
		objects, err := environment.ReadManifests(filepath.Join(root, "bin", "addons", name+".yaml"))
		w.Expect(err).NotTo(HaveOccurred(), "run make addons first")
		var text bytes.Buffer
		for _, obj := range objects {
			if _, found, _ := unstructured.NestedMap(obj.Object, "spec", "helm"); found {
				w.Expect(unstructured.SetNestedField(obj.Object, "oci://"+w.status.Charts+"/charts", "spec", "helm", "chart", "repository")).To(Succeed())
				w.Expect(unstructured.SetNestedField(obj.Object, true, "spec", "helm", "chart", "insecure")).To(Succeed())
			}
			document, err := yaml.Marshal(obj.Object)
			w.Expect(err).NotTo(HaveOccurred())
			text.WriteString("---\n")
			text.Write(document)
		}
		w.Expect(os.WriteFile(filepath.Join(w.addon, name+".yaml"), text.Bytes(), 0o600)).To(Succeed())
	}
}

// template makes a template out of the local one and a file.
func (w *harness) template(name, file string) {
	w.t.Helper()
	local := &infrav1.WorkspaceTemplate{}
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: "local-controlplane"}, local)).To(Succeed())
	made := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: environment.Namespace, Name: name}, Spec: *local.Spec.DeepCopy()}
	if file != "" {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		w.Expect(err).NotTo(HaveOccurred())
		made.Spec.Template.Spec.ForProvider.Module += "\n" + string(text)
	}
	w.Expect(w.client.Create(w.ctx, made)).To(Succeed())
}

// takesOver gives a template upgrade_install in place of the import.
func (w *harness) takesOver(name string) {
	w.t.Helper()
	found := &infrav1.WorkspaceTemplate{}
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, found)).To(Succeed())
	module := &found.Spec.Template.Spec.ForProvider.Module
	for _, block := range []string{"variable \"karpenter_import\" {", "import {"} {
		before, rest, cut := strings.Cut(*module, block)
		w.Expect(cut).To(BeTrue(), block)
		_, after, cut := strings.Cut(rest, "\n}\n")
		w.Expect(cut).To(BeTrue(), block)
		*module = before + after
	}
	*module = strings.Replace(*module, "wait = false", "wait = false\n  upgrade_install = true", 1)
	w.Expect(w.client.Update(w.ctx, found)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.client.Get(w.ctx, client.ObjectKeyFromObject(found), found)).To(Succeed())
		g.Expect(found.Status.ObservedGeneration).To(Equal(found.Generation))
	}, testTimeout, time.Second).Should(Succeed())
}

// cluster makes a cluster with the old template, and nodes for its pods.
func (w *harness) cluster(name string) {
	w.t.Helper()
	value := func(v any) infrav1.Value {
		text, err := json.Marshal(v)
		w.Expect(err).NotTo(HaveOccurred())
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
		"karpenter_repository": value("oci://" + w.status.Charts + "/charts"),
	}
	for _, obj := range []client.Object{cluster, infra, plane} {
		w.Expect(w.client.Create(w.ctx, obj)).To(Succeed())
	}
	w.Eventually(func(g Gomega) {
		ready := conditions.Get(w.plane(g, name), infrav1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(string(ready.Status)).To(Equal("True"), ready.Message)
	}, testTimeout, time.Second).Should(Succeed(), "the control plane is ready")

	inside := w.inside(name)
	for i := range 2 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		node.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		node.Labels = map[string]string{
			corev1.LabelHostname: node.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyZone: fmt.Sprintf("local-%d", i),
		}
		node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
		node.Status.Allocatable = node.Status.Capacity
		w.Expect(inside.Create(w.ctx, node)).To(Succeed())
	}
	w.Eventually(func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(inside.Get(w.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(*deployment.Spec.Replicas))
	}, testTimeout, time.Second).Should(Succeed(), "Karpenter runs")
}

func (w *harness) plane(g Gomega, name string) *controlplanev1.CAPTControlPlane {
	plane := &controlplanev1.CAPTControlPlane{}
	g.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, plane)).To(Succeed())
	return plane
}

func (w *harness) workspace(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	ws := &infrav1.WorkspaceTemplateApply{}
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, ws)).To(Succeed())
	return ws
}

// inside is a client of a cluster that was made.
func (w *harness) inside(name string) client.Client {
	w.t.Helper()
	kubeconfig := &corev1.Secret{}
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name + "-kubeconfig"}, kubeconfig)).To(Succeed())
	c, err := workload.Connector{Scheme: scheme.New()}.Client(kubeconfig.Data["value"])
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// identity is the uids of Karpenter's Deployment and pods.
func (w *harness) identity(name string) []string {
	w.t.Helper()
	inside := w.inside(name)
	deployment := &appsv1.Deployment{}
	w.Expect(inside.Get(w.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, deployment)).To(Succeed())
	var pods corev1.PodList
	w.Expect(inside.List(w.ctx, &pods, client.InNamespace("karpenter"))).To(Succeed())
	var uids []string
	for i := range pods.Items {
		uids = append(uids, "pod "+string(pods.Items[i].UID))
	}
	w.Expect(uids).To(HaveLen(2))
	slices.Sort(uids)
	return append(uids, "deployment "+string(deployment.UID))
}

// inState reports whether Terraform's state of a cluster has the release.
func (w *harness) inState(name string) bool {
	w.t.Helper()
	secret := &corev1.Secret{}
	at := terraform.Backend{SecretSuffix: template.StateSuffix(name)}.StateSecretName()
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: at}, secret)).To(Succeed())
	reader, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	w.Expect(err).NotTo(HaveOccurred())
	var state struct {
		Resources []struct {
			Type string `json:"type"`
		} `json:"resources"`
	}
	w.Expect(json.NewDecoder(reader).Decode(&state)).To(Succeed())
	w.Expect(state.Resources).NotTo(BeEmpty())
	for _, r := range state.Resources {
		if r.Type == "helm_release" {
			return true
		}
	}
	return false
}

func (w *harness) command(args ...string) *exec.Cmd {
	all := append([]string{"migrate", "karpenter", "--kubeconfig", w.status.Kubeconfig, "--from", "v1", "--addons", w.addon}, args...)
	return exec.CommandContext(w.ctx, w.captctl, all...)
}

// run calls captctl migrate karpenter.
func (w *harness) run(args ...string) (string, error) {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	w.t.Logf("captctl migrate karpenter %s\n%s", strings.Join(args, " "), out)
	return string(out), err
}

// kill calls it and kills it some time after a stage has begun. It reports whether
// the stage was reached.
func (w *harness) kill(stage string, after time.Duration, args ...string) bool {
	w.t.Helper()
	cmd := w.command(args...)
	stderr, err := cmd.StderrPipe()
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(cmd.Start()).To(Succeed())
	reached := false
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "… "+stage+":") {
			reached = true
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	w.t.Logf("killed %s after %s: %v", stage, after, err)
	return reached
}
