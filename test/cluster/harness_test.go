// Package cluster tests clusters and control planes as users run them: the real
// manager and OpenTofu, Cluster API's own controllers, and real API servers.
package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/waits"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env,
		testenv.WithClusterAPI(), testenv.WithControllerManager(), testenv.WithWebhooks(webhooks.Setup),
		testenv.WithStarted(startManager)))
}

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = waits.Timeout

// diagnostics has the address of the manager's metrics for each environment.
var diagnostics sync.Map

// startManager runs the manager for all tests of the package.
func startManager(e *testenv.Environment) error {
	account, err := e.ManagerAccount()
	if err != nil {
		return err
	}
	address, err := testenv.FreeAddress()
	if err != nil {
		return err
	}
	diagnostics.Store(e, address)
	stop, err := runManager(account.Kubeconfig, filepath.Join(e.Dir, "manager"), "--diagnostics-address="+address, "--insecure-diagnostics", "-v=5")
	if err != nil {
		return err
	}
	e.OnStop(stop)
	return nil
}

// runManager starts a manager and returns a function that stops it.
func runManager(kubeconfig, work string, extra ...string) (stop func() error, err error) {
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	parts, err := testenv.Assets()
	if err != nil {
		return nil, err
	}
	// The local templates find their program in PATH.
	path := strings.Join([]string{filepath.Join(root, "bin"), parts, os.Getenv("PATH")}, string(os.PathListSeparator))
	m := &testenv.Manager{
		Kubeconfig: kubeconfig, WorkDir: work, Env: []string{"PATH=" + path},
		Args: append([]string{"--kube-api-qps=500", "--kube-api-burst=1000"}, extra...),
	}
	return m.End, m.Start()
}

// harness is one namespace.
type harness struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	namespace string
	env       *testenv.Environment
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	return newHarnessOn(t, env)
}

func newHarnessOn(t *testing.T, e *testenv.Environment) *harness {
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: e.Namespace(t), env: e}
	t.Cleanup(func() {
		if t.Failed() {
			h.dump()
		}
	})
	return h
}

// dump logs the objects of the namespace and the manager's log.
func (h *harness) dump() {
	for _, kind := range []string{"clusters", "captclusters", "captcontrolplanes", "workspacetemplateapplies"} {
		kubectl, err := testenv.Part("kubectl")
		if err != nil {
			return
		}
		out, _ := exec.Command(kubectl, "--kubeconfig", h.env.Kubeconfig, "-n", h.namespace, "get", kind, "-o", "wide").CombinedOutput()
		h.t.Logf("%s", out)
	}
	h.t.Logf("manager:\n%s", testenv.LogOf(filepath.Join(h.env.Dir, "manager", "manager.log"), h.namespace))
}

func (h *harness) create(objects ...client.Object) {
	h.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(h.namespace)
		h.Expect(h.env.Client.Create(h.ctx, obj)).To(Succeed())
	}
}

// get reads an object of the namespace.
func get[T client.Object](h *harness, name string, into T) T {
	h.t.Helper()
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, into)).To(Succeed())
	return into
}

func (h *harness) cluster(name string) *clusterv1.Cluster {
	h.t.Helper()
	return get(h, name, &clusterv1.Cluster{})
}

func (h *harness) infra(name string) *infrav1.CAPTCluster {
	h.t.Helper()
	return get(h, name, &infrav1.CAPTCluster{})
}

func (h *harness) controlPlane(name string) *controlplanev1.CAPTControlPlane {
	h.t.Helper()
	return get(h, name, &controlplanev1.CAPTControlPlane{})
}

func (h *harness) apply(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	return get(h, name, &infrav1.WorkspaceTemplateApply{})
}

// change edits an object, and retries on a conflict.
func change[T client.Object](h *harness, name string, obj T, edit func(T)) {
	h.t.Helper()
	h.Eventually(func() error {
		if err := h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, obj); err != nil {
			return err
		}
		edit(obj)
		return h.env.Client.Update(h.ctx, obj)
	}, testTimeout).Should(Succeed())
}

// waitCondition waits until a condition begins with the text "Status Reason: message".
func waitCondition[T objecttest.Object](h *harness, name string, obj T, kind, prefix string) metav1.Condition {
	h.t.Helper()
	var c metav1.Condition
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, obj)).To(Succeed())
		c = objecttest.Condition(obj, kind)
		g.Expect(objecttest.Text(c)).To(HavePrefix(prefix))
		g.Expect(c.ObservedGeneration).To(Equal(obj.GetGeneration()))
	}, testTimeout).Should(Succeed())
	return c
}

// waitAvailable waits until Cluster API reports the cluster as available.
func (h *harness) waitAvailable(name string) *clusterv1.Cluster {
	h.t.Helper()
	cluster := &clusterv1.Cluster{}
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, cluster)).To(Succeed())
		g.Expect(objecttest.Text(objecttest.Condition(cluster, clusterv1.AvailableCondition))).To(HavePrefix("True"))
	}, testTimeout).Should(Succeed())
	return cluster
}

// waitReady waits until CAPT's objects are ready and Cluster API has observed the
// control plane. Available comes later: Cluster API connects every 30 seconds.
func (h *harness) waitReady(name string) *clusterv1.Cluster {
	h.t.Helper()
	waitCondition(h, name, &infrav1.CAPTCluster{}, infrav1.ReadyCondition, "True")
	waitCondition(h, name, &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	h.Eventually(func(g Gomega) {
		initialized := h.cluster(name).Status.Initialization.ControlPlaneInitialized
		g.Expect(initialized).To(HaveValue(BeTrue()))
	}, testTimeout).Should(Succeed())
	return h.cluster(name)
}

// settle waits until the controllers have handled earlier changes: they report on a
// cluster that is created now, for which they create nothing.
func (h *harness) settle() {
	h.t.Helper()
	h.create(newCluster("marker"),
		newInfra("marker", func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "missing" }),
		newControlPlane("marker", func(s *controlplanev1.CAPTControlPlaneSpec) { s.WorkspaceTemplateRef.Name = "missing" }))
	waitCondition(h, "marker", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "False WaitingForTemplate")
	waitCondition(h, "marker", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "False WaitingForInfrastructure")
}

// waitDeleted waits until an object no longer exists.
func (h *harness) waitDeleted(obj objecttest.Object) {
	h.t.Helper()
	h.Eventually(func(g Gomega) {
		err := h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(obj), obj)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%T %s: %v", obj, obj.GetName(), obj.GetConditions())
	}, testTimeout).Should(Succeed())
}

func (h *harness) delete(obj client.Object, options ...client.DeleteOption) {
	h.t.Helper()
	h.Expect(h.env.Client.Delete(h.ctx, obj, options...)).To(Succeed())
}

// destroy deletes an object and waits until it is gone.
func (h *harness) destroy(obj objecttest.Object) {
	h.t.Helper()
	h.delete(obj)
	h.waitDeleted(obj)
}

// leftovers returns the objects of CAPT that are still in the namespace.
func (h *harness) leftovers() []string {
	h.t.Helper()
	var names []string
	var secrets corev1.SecretList
	h.Expect(h.env.Client.List(h.ctx, &secrets, client.InNamespace(h.namespace))).To(Succeed())
	for i := range secrets.Items {
		if secrets.Items[i].Name != workloadSecret {
			names = append(names, "Secret "+secrets.Items[i].Name)
		}
	}
	var applies infrav1.WorkspaceTemplateApplyList
	h.Expect(h.env.Client.List(h.ctx, &applies, client.InNamespace(h.namespace))).To(Succeed())
	for i := range applies.Items {
		names = append(names, "WorkspaceTemplateApply "+applies.Items[i].Name)
	}
	return names
}

// lines returns the lines of a file, or none.
func lines(h *harness, path string) []string {
	h.t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	h.Expect(err).NotTo(HaveOccurred())
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
