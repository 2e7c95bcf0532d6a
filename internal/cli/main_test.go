package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &env))
}

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// world is a namespace of the real API server.
type world struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: env.Namespace(t)}
}

// answer is what a command said.
type answer struct {
	out, err string
	code     int
}

// buffer may be read while a command writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a command to its end.
func (w *world) run(args ...string) answer {
	w.t.Helper()
	var out, errs buffer
	err := execute(w.ctx, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, append([]string{"--kubeconfig", env.Kubeconfig, "-n", w.namespace}, args...)...)
	a := answer{out: out.String(), err: errs.String(), code: cli.Code(err)}
	if err != nil {
		a.err += err.Error()
	}
	return a
}

func execute(ctx context.Context, streams cli.Streams, args ...string) error {
	root := cli.New(streams)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// running is a command that goes on.
type running struct {
	out, err buffer
	stop     context.CancelFunc
	// code receives the exit code.
	code chan int
}

// start runs a command until it ends or the test stops it.
func (w *world) start(args ...string) *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	r := &running{stop: cancel, code: make(chan int, 1)}
	go func() {
		err := execute(ctx, cli.Streams{In: strings.NewReader(""), Out: &r.out, Err: &r.err}, append([]string{"--kubeconfig", env.Kubeconfig, "-n", w.namespace}, args...)...)
		if err != nil {
			_, _ = io.WriteString(&r.err, err.Error())
		}
		r.code <- cli.Code(err)
	}()
	return r
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.namespace)
		w.Expect(env.Client.Create(w.ctx, obj)).To(Succeed())
	}
}

// report writes the status of an object.
func (w *world) report(obj client.Object, edit func()) {
	w.t.Helper()
	w.Eventually(func() error {
		if err := env.Client.Get(w.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit()
		return env.Client.Status().Update(w.ctx, obj)
	}, patience).Should(Succeed())
}

func (w *world) reload(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Get(w.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}

func workspace(name string) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "t"}},
	}
}

func cluster(name string, labels map[string]string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name}
	return c
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
}

// controls makes one object the controller of another.
func controls(owner, obj client.Object, kind, version string) {
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}})
}
