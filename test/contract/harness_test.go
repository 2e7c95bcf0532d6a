// Package contract tests that CAPT fulfills Cluster API's provider contract. It has a
// rule for each clause of the contract's pages in the cluster-api module, and fails if
// a page changes. A rule checks the real API server, or clusters that the real
// manager has created with OpenTofu and Cluster API's own controllers.
package contract

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/waits"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	// The logs of the webhooks in this process are irrelevant.
	ctrl.SetLogger(logr.Discard())
	// Rules spend most of their time waiting.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	os.Exit(testenv.Run(m, &env,
		testenv.WithClusterAPI(), testenv.WithControllerManager(), testenv.WithWebhooks(webhooks.Setup),
		testenv.WithStarted(startRecording), testenv.WithStarted(startManager)))
}

const (
	// testTimeout is how long an operation may take on a busy machine.
	testTimeout  = waits.Timeout
	pollInterval = 100 * time.Millisecond
)

// startManager runs the manager for all tests of the package.
func startManager(e *testenv.Environment) error {
	stop, err := runManager(e, "manager")
	if err != nil {
		return err
	}
	e.OnStop(stop)
	return nil
}

// runManager starts a manager in an environment and returns a function that stops it.
// The log is the file manager.log of the directory.
func runManager(e *testenv.Environment, directory string, extra ...string) (stop func() error, err error) {
	account, err := e.ManagerAccount()
	if err != nil {
		return nil, err
	}
	m := &testenv.Manager{
		Kubeconfig: account.Kubeconfig, WorkDir: filepath.Join(e.Dir, directory),
		Args: append([]string{"--kube-api-qps=500", "--kube-api-burst=1000", "-v=4"}, extra...),
	}
	return m.End, m.Start()
}

// harness is one namespace.
type harness struct {
	Gomega
	ctx       context.Context
	namespace string
	env       *testenv.Environment
}

// newHarness creates a namespace. g handles failures.
func newHarness(g Gomega, e *testenv.Environment) *harness {
	h := &harness{Gomega: g, ctx: context.Background(), env: e}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "contract-"}}
	h.Expect(e.Client.Create(h.ctx, ns)).To(Succeed())
	h.namespace = ns.Name
	return h
}

// dump returns the objects of the namespace and the errors of the manager.
func (h *harness) dump() string {
	kubectl, err := testenv.Part("kubectl")
	if err != nil {
		return err.Error()
	}
	kinds := "clusters,captclusters,captcontrolplanes,machines,machinepools,captmachines,captmachinepools,captbootstrapconfigs,workspacetemplateapplies"
	out, _ := exec.Command(kubectl, "--kubeconfig", h.env.Kubeconfig, "-n", h.namespace, "get", kinds, "-o", "wide").CombinedOutput()
	log := testenv.LogOf(filepath.Join(h.env.Dir, "manager", "manager.log"), h.namespace)
	return fmt.Sprintf("namespace %s\n%s\nmanager:\n%s", h.namespace, out, log)
}

func (h *harness) create(objects ...client.Object) {
	for _, obj := range objects {
		obj.SetNamespace(h.namespace)
		h.Expect(h.env.Client.Create(h.ctx, obj)).To(Succeed(), "%T %s", obj, obj.GetName())
	}
}

func (h *harness) delete(obj client.Object) {
	h.Expect(h.env.Client.Delete(h.ctx, obj)).To(Succeed())
}

// get reads an object of the namespace.
func get[T client.Object](h *harness, name string, into T) T {
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, into)).To(Succeed())
	return into
}

// change edits an object, and retries on a conflict.
func change[T client.Object](h *harness, name string, obj T, edit func(T)) {
	h.Eventually(func() error {
		if err := h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, obj); err != nil {
			return err
		}
		edit(obj)
		return h.env.Client.Update(h.ctx, obj)
	}, testTimeout).Should(Succeed())
}

// waitCondition waits until a condition of the current generation begins with the
// text "Status Reason: message".
func waitCondition[T objecttest.Object](h *harness, name string, obj T, kind, prefix string) T {
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, obj)).To(Succeed())
		c := objecttest.Condition(obj, kind)
		g.Expect(objecttest.Text(c)).To(HavePrefix(prefix), "%s of %T %s", kind, obj, name)
		g.Expect(c.ObservedGeneration).To(Equal(obj.GetGeneration()))
	}, testTimeout, pollInterval).Should(Succeed())
	return obj
}

// waitDeleted waits until an object no longer exists.
func (h *harness) waitDeleted(obj objecttest.Object) {
	h.Eventually(func(g Gomega) {
		err := h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(obj), obj)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%T %s: %v", obj, obj.GetName(), obj.GetConditions())
	}, testTimeout, pollInterval).Should(Succeed())
}
