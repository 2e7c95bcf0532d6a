package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/testenv"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &env))
}

// harness runs commands in a namespace of a real API server.
type harness struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	namespace string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	return &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: env.Namespace(t)}
}

// result is the output and the exit code of a command.
type result struct {
	out, err string
	code     int
}

// buffer can be read while a command writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	// flags are omitted in the hints of the command: TestHints_haveTheFlagsOfTheCommand
	// tests them.
	flags string
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ReplaceAll(b.b.String(), b.flags, "")
}

// hintFlags are the flags of the harness in the hints of commands.
func (h *harness) hintFlags() string { return " --kubeconfig " + env.Kubeconfig + " -n " + h.namespace }

// run runs a command and returns its result.
func (h *harness) run(args ...string) result {
	h.t.Helper()
	out, errs := buffer{flags: h.hintFlags()}, buffer{flags: h.hintFlags()}
	err := execute(h.ctx, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, append([]string{"--kubeconfig", env.Kubeconfig, "-n", h.namespace}, args...)...)
	a := result{out: out.String(), err: errs.String(), code: cli.Code(err)}
	if err != nil {
		a.err += strings.ReplaceAll(err.Error(), h.hintFlags(), "")
	}
	return a
}

func execute(ctx context.Context, streams cli.Streams, args ...string) error {
	root := cli.New(streams)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// runningCommand is a command in the background.
type runningCommand struct {
	out, err buffer
	stop     context.CancelFunc
	// code receives the exit code.
	code chan int
}

// start runs a command in the background.
func (h *harness) start(args ...string) *runningCommand {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.ctx)
	r := &runningCommand{stop: cancel, code: make(chan int, 1), out: buffer{flags: h.hintFlags()}, err: buffer{flags: h.hintFlags()}}
	go func() {
		err := execute(ctx, cli.Streams{In: strings.NewReader(""), Out: &r.out, Err: &r.err}, append([]string{"--kubeconfig", env.Kubeconfig, "-n", h.namespace}, args...)...)
		if err != nil {
			_, _ = io.WriteString(&r.err, err.Error())
		}
		r.code <- cli.Code(err)
	}()
	return r
}

func (h *harness) create(objects ...client.Object) {
	h.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(h.namespace)
		h.Expect(env.Client.Create(h.ctx, obj)).To(Succeed())
	}
}

// setStatus updates the status of an object.
func (h *harness) setStatus(obj client.Object, edit func()) {
	h.t.Helper()
	h.Eventually(func() error {
		if err := env.Client.Get(h.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit()
		return env.Client.Status().Update(h.ctx, obj)
	}).Should(Succeed())
}

func (h *harness) reload(obj client.Object) {
	h.t.Helper()
	h.Expect(env.Client.Get(h.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}

// operations returns what was requested, except what has ended.
func (h *harness) operations() []infrav1.WorkspaceOperation {
	h.t.Helper()
	var list infrav1.WorkspaceOperationList
	h.Expect(env.Client.List(h.ctx, &list, client.InNamespace(h.namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(o infrav1.WorkspaceOperation) bool { return o.Ended() })
}

// operation returns what was requested, and expects one operation of the type.
func (h *harness) operation(kind infrav1.OperationType) *infrav1.WorkspaceOperation {
	h.t.Helper()
	found := h.operations()
	h.Expect(found).To(HaveLen(1))
	h.Expect(found[0].Spec.Type).To(Equal(kind))
	h.Expect(found[0].Spec.Workspace).To(Equal("net"))
	return &found[0]
}

// approval returns the decision about a plan, and expects one.
func (h *harness) approval() infrav1.WorkspaceApprovalSpec {
	h.t.Helper()
	found := h.approvals()
	h.Expect(found).To(HaveLen(1))
	return found[0].Spec
}

func (h *harness) approvals() []infrav1.WorkspaceApproval {
	h.t.Helper()
	var list infrav1.WorkspaceApprovalList
	h.Expect(env.Client.List(h.ctx, &list, client.InNamespace(h.namespace))).To(Succeed())
	return list.Items
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

// setController makes owner the controller of an object.
func setController(owner, obj client.Object, kind, version string) {
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}})
}
