// Package fleet tests many clusters at once: all become ready, nothing is written
// afterwards, and a restart of the manager starts no run. It measures the resources of the
// manager, which runs with the arguments of the manifests and is scraped.
package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	// size is the number of clusters, unless CAPT_FLEET is set: make scale creates 200,
	// which takes minutes.
	size = 8
	// testTimeout is how long they may take on a busy machine.
	testTimeout = 25 * time.Minute
	// idleTime is how long nothing may be written.
	idleTime = 20 * time.Second
)

const vpcModule = `
variable "name" { type = string }
resource "terraform_data" "vpc" { input = var.name }
output "vpc_id" { value = "vpc-${substr(sha256(terraform_data.vpc.id), 0, 17)}" }
output "private_subnets" { value = ["subnet-a", "subnet-b"] }
`

// controlPlaneModule returns an API server that is already running.
const controlPlaneModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "kubeconfig" {
  type      = string
  sensitive = true
}
resource "terraform_data" "cluster" { input = [var.cluster_name, var.vpc_id, var.kubernetes_version] }
output "cluster_endpoint" { value = nonsensitive(yamldecode(var.kubeconfig).clusters[0].cluster.server) }
output "kubeconfig" {
  value     = replace(var.kubeconfig, "CLUSTER", var.cluster_name)
  sensitive = true
}
`

// result is the output of make scale.
type result struct {
	Clusters   int `json:"clusters"`
	Workspaces int `json:"workspaces"`
	// Empty is the manager's memory before the first cluster, and Memory that with all
	// clusters ready.
	Empty  memory `json:"empty"`
	Memory memory `json:"memory"`
	// Restarted is its memory after a restart with all clusters, as soon as it has reconciled
	// everything, and RestartSeconds is how long that took.
	Restarted      memory  `json:"restarted"`
	RestartSeconds float64 `json:"restartSeconds"`
	// Scrapes are the reads of the metrics of both managers.
	Scrapes int `json:"scrapes"`
	// LimitMiB is the memory limit of the manifests, and GrowthKiB what each cluster, with
	// its workspaces, adds to the memory that cannot be reclaimed.
	LimitMiB  int `json:"limitMiB"`
	GrowthKiB int `json:"growthKiB"`
	// WritesAtRest are the writes to the API server within RestSeconds.
	WritesAtRest int     `json:"writesAtRest"`
	RestSeconds  float64 `json:"restSeconds"`
	// CPUSecondsAtRest is the CPU time of the manager in that time.
	CPUSecondsAtRest float64 `json:"cpuSecondsAtRest"`
	ReadySeconds     float64 `json:"readySeconds"`
	// AddonSeconds is when the add-on was ready in all clusters.
	AddonSeconds float64 `json:"addonSeconds"`
}

func TestFleet_becomesReadyAndIdle(t *testing.T) {
	g := NewWithT(t)
	env := testenv.New(t, testenv.WithClusterAPI(), testenv.WithControllerManager())
	in := install(t, env)
	tofu, err := testenv.Part("tofu")
	g.Expect(err).NotTo(HaveOccurred())
	// There are no nodes for Jobs.
	manager := in.start(t, "--executor=process", "--terraform-binary="+tofu, "--work-dir="+t.TempDir(), "--max-runs=4")
	namespace := env.Namespace(t)
	count := number(t, "CAPT_FLEET", size)
	workspaces := number(t, "CAPT_FLEET_WORKSPACES", 2*count)
	awaitCaches(t, env, namespace)
	pid := manager.cmd.Process.Pid
	found := result{Clusters: count, Workspaces: workspaces, Empty: manager.memory(t), LimitMiB: int(in.limit >> 20), RestSeconds: idleTime.Seconds()}

	workloads := startWorkloads(t, env)
	began := time.Now()
	createFleet(t, env, namespace, workloads, count, workspaces)
	await(t, env, namespace, &controlplanev1.CAPTControlPlaneList{}, infrav1.ReadyCondition, count)
	found.ReadySeconds = time.Since(began).Seconds()
	awaitFleet(t, env, namespace, count, workspaces)
	found.AddonSeconds = time.Since(began).Seconds()

	// Writes that are due may be late on a busy machine. Then a later period has none.
	g.Eventually(func(g Gomega) {
		before, cpu := countWrites(t, env), cpuSeconds(t, pid)
		time.Sleep(idleTime) // The test measures this period: nothing may happen in it.
		after := countWrites(t, env)
		found.WritesAtRest, found.CPUSecondsAtRest = after.total-before.total, cpuSeconds(t, pid)-cpu
		g.Expect(after.byResource).To(Equal(before.byResource))
	}, 15*idleTime).Should(Succeed(), "nothing is written while nothing changes")
	found.Memory = manager.memory(t)
	found.GrowthKiB = int((found.Memory.AnonymousMiB - found.Empty.AnonymousMiB) * 1024 / float64(count))
	found.Scrapes = manager.scraped(t)

	manager.stop()
	runs := countRuns(t, env, namespace)
	workloads.forget()
	began = time.Now()
	restarted := in.start(t)
	restarted.awaitSettled(t, count, workspaces)
	g.Eventually(workloads.watched, testTimeout, time.Second).Should(Equal(count), "the manager connects to all clusters again")
	restarted.awaitSettled(t, count, workspaces)
	found.RestartSeconds = time.Since(began).Seconds()
	found.Restarted = restarted.memory(t)
	found.Scrapes += restarted.scraped(t)
	awaitFleet(t, env, namespace, count, workspaces)
	g.Expect(countRuns(t, env, namespace)).To(Equal(runs), "a restart starts no run")
	t.Logf("%+v", found)

	out := os.Getenv("CAPT_SCALE_OUT")
	if out == "" {
		return
	}
	text, err := json.MarshalIndent(found, "", "  ")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.MkdirAll(filepath.Dir(out), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(out, append(text, '\n'), 0o644)).To(Succeed())
	for when, peak := range map[string]float64{"while the clusters are created": found.Memory.limitedMiB(), "at a restart": found.Restarted.limitedMiB()} {
		g.Expect(peak).To(BeNumerically("<", found.LimitMiB), "the memory limit of the manifests is too low for the manager %s", when)
	}
}

// createFleet creates clusters with an add-on, and further workspaces.
func createFleet(t *testing.T, env *testenv.Environment, namespace string, w *workloads, clusters, workspaces int) {
	t.Helper()
	createTemplates(t, env, namespace, w)
	createAddon(t, env, namespace)
	for i := range clusters {
		name := fmt.Sprintf("cluster-%03d", i)
		createWorkload(t, env, name)
		createCluster(t, env, namespace, name)
	}
	for i := range workspaces - 2*clusters {
		createWorkspace(t, env, namespace, fmt.Sprintf("workspace-%03d", i))
	}
}

// awaitFleet waits until everything is ready.
func awaitFleet(t *testing.T, env *testenv.Environment, namespace string, clusters, workspaces int) {
	t.Helper()
	await(t, env, namespace, &infrav1.WorkspaceTemplateApplyList{}, infrav1.ReadyCondition, workspaces)
	// Cluster API connects to the clusters later, and may write then.
	await(t, env, namespace, &clusterv1.ClusterList{}, clusterv1.ClusterAvailableCondition, clusters)
	NewWithT(t).Eventually(func(g Gomega) {
		var addon addonsv1.CAPTAddon
		g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "note"}, &addon)).To(Succeed())
		g.Expect(addon.Status.Ready).To(HaveValue(BeEquivalentTo(clusters)), "%v", addon.Status.Conditions)
	}, testTimeout, time.Second).Should(Succeed())
}

// countRuns returns the number of runs of all workspaces.
func countRuns(t *testing.T, env *testenv.Environment, namespace string) (count int) {
	t.Helper()
	var list infrav1.WorkspaceTemplateApplyList
	NewWithT(t).Expect(env.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	for i := range list.Items {
		count += int(list.Items[i].Status.Runs)
	}
	return count
}

// createAddon installs a Secret in every cluster, which the manager watches.
func createAddon(t *testing.T, env *testenv.Environment, namespace string) {
	t.Helper()
	addon := &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "note"},
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "true"}},
			Connection:      &addonsv1.ConnectionSource{Keys: []string{"cluster_endpoint"}},
			Manifests: []addonsv1.ManifestSource{{
				Name:   "note",
				Inline: "apiVersion: v1\nkind: Secret\nmetadata: {name: note, namespace: '${CLUSTER_NAME}'}\nstringData: {endpoint: '${cluster_endpoint}'}\n",
			}},
		},
	}
	if err := env.Client.Create(t.Context(), addon); err != nil {
		t.Fatal(err)
	}
}

func createTemplates(t *testing.T, env *testenv.Environment, namespace string, w *workloads) {
	t.Helper()
	g := NewWithT(t)
	vars, err := json.Marshal(map[string]string{"kubeconfig": w.kubeconfig})
	g.Expect(err).NotTo(HaveOccurred())
	for _, obj := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "workload"}, Data: map[string][]byte{"vars.json": vars}},
		template("vpc", vpcModule, nil),
		template("control-plane", controlPlaneModule, []infrav1.VarFile{{
			Source: infrav1.VarFileSourceSecretKey, Format: infrav1.FileFormatJSON,
			SecretKeyReference: &infrav1.KeyReference{Name: "workload", Key: "vars.json"},
		}}),
	} {
		obj.SetNamespace(namespace)
		g.Expect(env.Client.Create(t.Context(), obj)).To(Succeed())
	}
}

func template(name, module string, files []infrav1.VarFile) *infrav1.WorkspaceTemplate {
	return &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{
			ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module, VarFiles: files},
		}}},
	}
}

// createWorkspace creates a workspace without a cluster.
func createWorkspace(t *testing.T, env *testenv.Environment, namespace, name string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "vpc"}, Variables: map[string]infrav1.Value{"name": infrav1.StringValue(name)}},
	}); err != nil {
		t.Fatal(err)
	}
}

func createCluster(t *testing.T, env *testenv.Environment, namespace, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	labelled := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"fleet": "true"}}
	for _, obj := range []client.Object{
		&clusterv1.Cluster{ObjectMeta: labelled, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name},
		}},
		&infrav1.CAPTCluster{ObjectMeta: meta, Spec: infrav1.CAPTClusterSpec{Region: "local-1", VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"}}},
		&controlplanev1.CAPTControlPlane{ObjectMeta: meta, Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: "v1.37.0", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "control-plane"},
			Kubeconfig: &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput},
		}},
	} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

type writeCount struct {
	total      int
	byResource map[string]int
}

// countWrites returns the number of writes that the API server has served. It ignores
// Leases and events, and bindings, which Cluster API patches without a change in every
// reconcile.
func countWrites(t *testing.T, env *testenv.Environment) writeCount {
	t.Helper()
	g := NewWithT(t)
	c, err := kubernetes.NewForConfig(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	count := writeCount{byResource: map[string]int{}}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		labels, value, _ := strings.Cut(line, "} ")
		verb, resource := label(labels, "verb"), label(labels, "resource")
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		if resource == "leases" || resource == "events" || strings.HasSuffix(resource, "reviews") || resource == "clusterresourcesetbindings" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		g.Expect(err).NotTo(HaveOccurred())
		count.total += int(n)
		count.byResource[verb+" "+resource] += int(n)
	}
	g.Expect(count.total).To(BeNumerically(">", 0))
	return count
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// cpuSeconds returns the CPU time of a process.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks float64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}
