// Package e2e is the end-to-end test of CAPT: a real management cluster, local
// clusters that run real Flux and Karpenter, and injected faults. It requires `make
// parts build addons`, and runs only with CAPT_E2E=1 (`make e2e`).
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	// testTimeout is how long an operation may take on a busy machine.
	testTimeout = 4 * time.Minute
	// pollInterval is the interval of waits, measureInterval that of measurements.
	pollInterval    = 250 * time.Millisecond
	measureInterval = 50 * time.Millisecond
)

// Names that the tests use.
const (
	flux      = "fluxcd"
	karpenter = "karpenter"
	nodePool  = "karpenter-nodepool-kwok"
	third     = "aws-load-balancer-controller"
)

var (
	helmReleases = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}
	nodeClaims   = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
)

// harness is an environment with one cluster.
type harness struct {
	*WithT
	t      *testing.T
	ctx    context.Context
	began  time.Time
	env    *environment.Environment
	client client.WithWatch
	// charts is the address of the charts, name the name of the cluster.
	charts, name string
	// workload is the client of the cluster.
	workload client.Client
	// uid is the UID of Karpenter's Deployment.
	uid string
}

// newHarness starts an environment, and removes it when the test ends.
func newHarness(t *testing.T, name string) *harness {
	t.Helper()
	if os.Getenv("CAPT_E2E") != "1" {
		t.Skip("run `make e2e`: the test requires the programs of Flux and Karpenter")
	}
	base, err := os.MkdirTemp("", "capt-e2e-")
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), began: time.Now(), name: name}
	h.SetDefaultEventuallyTimeout(testTimeout)
	h.SetDefaultEventuallyPollingInterval(pollInterval)
	h.Expect(err).NotTo(HaveOccurred())
	h.env, err = environment.New("e2e", base)
	h.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { h.cleanUp(base) })
	status, err := h.env.Up(h.ctx, func(environment.Step) {})
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(status.Charts).NotTo(BeEmpty(), "`make addons` packs the charts")
	h.charts = status.Charts
	h.client, err = h.env.Client()
	h.Expect(err).NotTo(HaveOccurred())
	h.logf("The management cluster is up: Kubernetes %s", status.KubernetesVersion)
	return h
}

// cleanUp stops the environment, keeps the logs of a failed test, and checks that no
// process is left.
func (h *harness) cleanUp(base string) {
	ctx := context.Background()
	if h.t.Failed() {
		h.keepLogs()
	}
	if err := h.env.Down(ctx, func(environment.Step) {}); err != nil {
		h.t.Errorf("stopping the environment: %v", err)
	}
	if left := testenv.ProcessesOf(base); len(left) > 0 {
		h.t.Errorf("processes are left: %v", left)
	}
	if err := os.RemoveAll(base); err != nil {
		h.t.Error(err)
	}
}

// keepLogs copies the logs to the directory CAPT_E2E_LOGS.
func (h *harness) keepLogs() {
	to := os.Getenv("CAPT_E2E_LOGS")
	if to == "" {
		h.t.Log("set CAPT_E2E_LOGS to a directory to keep the logs of a failed test")
		return
	}
	for _, dir := range []string{"management", "clusters/*"} {
		found, _ := filepath.Glob(filepath.Join(h.env.Dir, dir, "logs"))
		for _, logs := range found {
			target := filepath.Join(to, h.t.Name(), filepath.Base(filepath.Dir(logs)))
			if err := errors.Join(os.RemoveAll(target), os.CopyFS(target, os.DirFS(logs))); err != nil {
				h.t.Logf("keeping %s: %v", logs, err)
			}
		}
	}
	h.t.Logf("the logs are in %s", to)
}

// logf logs a line with the time since the start of the test.
func (h *harness) logf(format string, args ...any) {
	h.t.Helper()
	h.t.Logf("%6.1fs  %s", time.Since(h.began).Seconds(), fmt.Sprintf(format, args...))
}

// kill kills a process of the management cluster.
func (h *harness) kill(part string) {
	h.t.Helper()
	status, err := h.env.Status(h.ctx)
	h.Expect(err).NotTo(HaveOccurred())
	for _, p := range status.Parts {
		if p.Name == part {
			h.Expect(p.Running).To(BeTrue(), "%s must be running", part)
			h.Expect(syscall.Kill(p.PID, syscall.SIGKILL)).To(Succeed())
			return
		}
	}
	h.t.Fatalf("no part %s", part)
}

// process returns the ID of a process of the cluster.
func (h *harness) process(part string) int {
	h.t.Helper()
	status, err := h.env.Status(h.ctx)
	h.Expect(err).NotTo(HaveOccurred())
	for _, cluster := range status.Clusters {
		for _, p := range cluster.Parts {
			if cluster.Name == h.name && p.Name == part && p.Running {
				return p.PID
			}
		}
	}
	h.t.Fatalf("no process %s in cluster %s", part, h.name)
	return 0
}

// install applies a built-in add-on, with its chart from the environment's server.
func (h *harness) install(name string, change ...func(*unstructured.Unstructured)) {
	h.t.Helper()
	root, err := h.env.Root()
	h.Expect(err).NotTo(HaveOccurred())
	objects, err := environment.ReadManifests(filepath.Join(root, "bin", "addons", name+".yaml"))
	h.Expect(err).NotTo(HaveOccurred())
	for _, obj := range objects {
		if obj.GetKind() != "CAPTAddon" {
			continue
		}
		if _, found, _ := unstructured.NestedMap(obj.Object, "spec", "helm"); found {
			set(h, obj, "oci://"+h.charts+"/charts", "spec", "helm", "chart", "repository")
			set(h, obj, true, "spec", "helm", "chart", "insecure")
		}
		for _, edit := range change {
			edit(obj)
		}
	}
	h.Expect(environment.Apply(h.ctx, h.client, environment.Namespace, objects)).To(Succeed())
}

func set(h *harness, obj *unstructured.Unstructured, value any, path ...string) {
	h.t.Helper()
	h.Expect(unstructured.SetNestedField(obj.Object, value, path...)).To(Succeed())
}

// chartVersion sets the initial chart version of an add-on.
func (h *harness) chartVersion(version string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) { set(h, obj, version, "spec", "helm", "chart", "version") }
}

// create creates a cluster of the class local, with the labels of Flux and Karpenter.
func (h *harness) create(version string) {
	h.t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: h.name, Namespace: environment.Namespace,
			Labels: map[string]string{"fluxcd.io/enabled": "true", "karpenter.sh/enabled": "true"},
		},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "local"}, Version: version,
			Workers: clusterv1.WorkersTopology{MachinePools: []clusterv1.MachinePoolTopology{
				// Flux and Karpenter need initial nodes.
				{Class: "node-group", Name: "system", Replicas: new(int32(2))},
			}},
		}},
	}
	h.Expect(h.client.Create(h.ctx, cluster)).To(Succeed())
}

// get reads an object of the management cluster.
func get[T client.Object](h *harness, name string, obj T) T {
	h.t.Helper()
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, obj)).To(Succeed())
	return obj
}

// change edits an object of the management cluster. Webhooks are unavailable for a
// while after a manager is killed.
func change[T client.Object](h *harness, name string, obj T, edit func(T)) {
	h.t.Helper()
	h.Eventually(func() error {
		if err := h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, obj); err != nil {
			return err
		}
		edit(obj)
		return h.client.Update(h.ctx, obj)
	}).Should(Succeed(), "changing %s", name)
}

func (h *harness) addon(name string, edit func(*addonsv1.CAPTAddon)) {
	h.t.Helper()
	change(h, name, &addonsv1.CAPTAddon{}, edit)
}

func (h *harness) cluster(edit func(*clusterv1.Cluster)) {
	h.t.Helper()
	change(h, h.name, &clusterv1.Cluster{}, edit)
}

// ofCluster returns the options that list objects of the cluster.
func (h *harness) ofCluster() []client.ListOption {
	return []client.ListOption{client.InNamespace(environment.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: h.name}}
}

// controlPlane returns the control plane of the cluster, or an empty one.
func (h *harness) controlPlane() *controlplanev1.CAPTControlPlane {
	h.t.Helper()
	var list controlplanev1.CAPTControlPlaneList
	h.Expect(h.client.List(h.ctx, &list, h.ofCluster()...)).To(Succeed())
	if len(list.Items) == 0 {
		return &controlplanev1.CAPTControlPlane{}
	}
	return &list.Items[0]
}

// condition returns "True", or "False: Reason: message".
func condition(conditions []metav1.Condition, kind string) string {
	found := meta.FindStatusCondition(conditions, kind)
	if found == nil {
		return "not set"
	}
	if found.Status == metav1.ConditionTrue {
		return "True"
	}
	return fmt.Sprintf("%s: %s: %s", found.Status, found.Reason, found.Message)
}

// addonStatus returns the status of an add-on in the cluster: "Ready", or the reason and
// the message.
func (h *harness) addonStatus(addon string) string {
	h.t.Helper()
	status := get(h, addon, &addonsv1.CAPTAddon{}).StatusIn(h.name)
	if status == nil {
		return "absent"
	}
	return strings.TrimSpace(status.Reason + " " + status.Message)
}

// handled reports whether an add-on was reconciled since it was changed.
func (h *harness) handled(addon string) bool {
	h.t.Helper()
	found := get(h, addon, &addonsv1.CAPTAddon{})
	return found.Status.ObservedGeneration == found.Generation && found.Status.HandledTrigger == found.Annotations[addonsv1.TriggerAnnotation]
}

// waitAddon waits for a status of an add-on.
func (h *harness) waitAddon(addon string, status types.GomegaMatcher) {
	h.t.Helper()
	h.Eventually(func() string {
		if !h.handled(addon) {
			return "not reconciled yet"
		}
		return h.addonStatus(addon)
	}).Should(status, "add-on %s", addon)
}

// ready waits until the add-ons are ready, in this order.
func (h *harness) ready(addons ...string) {
	h.t.Helper()
	for _, addon := range addons {
		h.waitAddon(addon, Equal(clusterv1.ReadyReason))
		h.logf("Add-on %s is ready", addon)
	}
}

// connect creates the client of the cluster.
func (h *harness) connect() {
	h.t.Helper()
	kubeconfig := &corev1.Secret{}
	h.Eventually(func() error {
		return h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: h.name + "-kubeconfig"}, kubeconfig)
	}).Should(Succeed(), "the kubeconfig exists")
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	h.Expect(err).NotTo(HaveOccurred())
	config.QPS, config.Timeout = -1, 20*time.Second
	h.workload, err = client.New(config, client.Options{Scheme: h.client.Scheme()})
	h.Expect(err).NotTo(HaveOccurred())
}
