// Package fleet tests many clusters at once: all become ready, and nothing is written
// afterwards. It measures the resources of the manager.
package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	// size is the number of clusters, unless CAPT_FLEET is set: make scale creates 200,
	// which takes minutes.
	size = 40
	// testTimeout is how long they may take on a busy machine.
	testTimeout = 15 * time.Minute
	// idleTime is how long nothing may be written.
	idleTime = 20 * time.Second
	// memoryLimit is the memory limit of the manager in config/manager, in MiB.
	memoryLimit = 128
	// goMemoryLimit is the limit that the manager sets for the Go runtime in a container
	// with that limit.
	goMemoryLimit = "GOMEMLIMIT=87241516"
)

const vpcModule = `
variable "name" { type = string }
resource "terraform_data" "vpc" { input = var.name }
output "vpc_id" { value = "vpc-${substr(sha256(terraform_data.vpc.id), 0, 17)}" }
output "private_subnets" { value = ["subnet-a", "subnet-b"] }
`

// controlPlaneModule returns an API server that is already running: two hundred of them
// would need too much memory.
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
  value     = var.kubeconfig
  sensitive = true
}
`

// result is the output of make scale.
type result struct {
	Clusters int `json:"clusters"`
	// MemoryMiB is the manager's resident memory with all clusters ready (VmRSS), and
	// AnonymousMiB the part of it that the kernel cannot reclaim (RssAnon). The other part
	// are pages of the program's file, which the kernel can drop and read again.
	MemoryMiB    int `json:"memoryMiB"`
	AnonymousMiB int `json:"anonymousMiB"`
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
	manager := startManager(t, env)
	namespace := env.Namespace(t)
	count := size
	if text := os.Getenv("CAPT_FLEET"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		g.Expect(err).NotTo(HaveOccurred())
	}

	began := time.Now()
	createTemplates(t, env, namespace)
	createAddon(t, env, namespace)
	for i := range count {
		createCluster(t, env, namespace, fmt.Sprintf("cluster-%03d", i))
	}
	g.Eventually(func() (ready int) {
		var list controlplanev1.CAPTControlPlaneList
		g.Expect(env.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			if conditions.IsTrue(&list.Items[i], infrav1.ReadyCondition) {
				ready++
			}
		}
		return ready
	}, testTimeout, time.Second).Should(Equal(count))
	found := result{Clusters: count, ReadySeconds: time.Since(began).Seconds(), RestSeconds: idleTime.Seconds()}

	// Cluster API connects to the clusters later, and may write then.
	g.Eventually(func() (available int) {
		var list clusterv1.ClusterList
		g.Expect(env.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			if conditions.IsTrue(&list.Items[i], clusterv1.ClusterAvailableCondition) {
				available++
			}
		}
		return available
	}, testTimeout, time.Second).Should(Equal(count))

	g.Eventually(func(g Gomega) {
		var addon addonsv1.CAPTAddon
		g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "note"}, &addon)).To(Succeed())
		g.Expect(addon.Status.Ready).To(HaveValue(BeEquivalentTo(count)), "%v", addon.Status.Conditions)
	}, testTimeout, time.Second).Should(Succeed())
	found.AddonSeconds = time.Since(began).Seconds()

	writes, cpu := countWrites(t, env), cpuSeconds(t, manager)
	time.Sleep(idleTime) // The test measures this period: nothing may happen in it.
	after := countWrites(t, env)
	found.WritesAtRest, found.CPUSecondsAtRest = after.total-writes.total, cpuSeconds(t, manager)-cpu
	found.MemoryMiB, found.AnonymousMiB = residentMiB(t, manager, "VmRSS"), residentMiB(t, manager, "RssAnon")
	t.Logf("%+v", found)
	g.Expect(after.byResource).To(Equal(writes.byResource), "nothing is written while nothing changes")

	if out := os.Getenv("CAPT_SCALE_OUT"); out != "" {
		text, err := json.MarshalIndent(found, "", "  ")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.MkdirAll(filepath.Dir(out), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(out, append(text, '\n'), 0o644)).To(Succeed())
		g.Expect(found.MemoryMiB).To(BeNumerically("<", memoryLimit), "the manager needs more MiB than the limit of the manifests")
	}
}

// createAddon installs a ConfigMap in every cluster. All clusters are the same API
// server here.
func createAddon(t *testing.T, env *testenv.Environment, namespace string) {
	t.Helper()
	addon := &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "note"},
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "true"}},
			Connection:      &addonsv1.ConnectionSource{Keys: []string{"cluster_endpoint"}},
			Manifests: []addonsv1.ManifestSource{{
				Name:   "note",
				Inline: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${CLUSTER_NAME}', namespace: '${CLUSTER_NAMESPACE}'}\ndata: {endpoint: '${cluster_endpoint}'}\n",
			}},
		},
	}
	if err := env.Client.Create(t.Context(), addon); err != nil {
		t.Fatal(err)
	}
}

func createTemplates(t *testing.T, env *testenv.Environment, namespace string) {
	t.Helper()
	g := NewWithT(t)
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
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

func startManager(t *testing.T, env *testenv.Environment) int {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	tofu, err := testenv.Part("tofu")
	g.Expect(err).NotTo(HaveOccurred())
	log, err := os.Create(filepath.Join(env.Dir, "manager.log"))
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(root, "bin", "manager"),
		"--webhook-port=0", "--health-addr=0", "--diagnostics-address=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--allowed-cidrs=127.0.0.0/8,::1/128", "--executor=process", "--terraform-binary="+tofu, "--work-dir="+t.TempDir(), "--max-runs=4")
	account, err := env.SuiteAccount()
	g.Expect(err).NotTo(HaveOccurred())
	cmd.Env = append(os.Environ(), "KUBECONFIG="+account.Kubeconfig, goMemoryLimit)
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed(), "run `make build` first")
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("manager:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return cmd.Process.Pid
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

// residentMiB returns a field of the status of a process.
func residentMiB(t *testing.T, pid int, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no %s", field)
	return 0
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
