package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/waits"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithControllerManager(), testenv.WithWebhooks(webhooks.Setup), testenv.WithStarted(withoutValidation)))
}

// withoutValidation leaves the webhooks that set the user of a request. The controllers report
// what the others would refuse: an object can be older than they are.
func withoutValidation(e *testenv.Environment) error {
	return e.Client.DeleteAllOf(context.Background(), &admissionv1.ValidatingWebhookConfiguration{})
}

// shared is the manager of all tests that do not stop it.
var shared struct {
	sync.Once
	manager *testenv.Manager
}

const sharedFilter = "shared"

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = waits.Timeout

// harness is one namespace with a manager that watches it.
type harness struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	namespace string
	// filter is the watch filter of the manager.
	filter string
	// dir is the directory in which modules create files.
	dir string
	// control is the directory of the files that pause OpenTofu.
	control string
	*testenv.Manager
}

// newHarness returns a new namespace that the shared manager watches.
func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	shared.Do(func() {
		work, err := os.MkdirTemp(env.Dir, "shared-")
		if err != nil {
			t.Fatal(err)
		}
		shared.manager = &testenv.Manager{Kubeconfig: managerKubeconfig(t), WorkDir: work, Args: []string{"--watch-filter=" + sharedFilter}}
		if err := shared.manager.Start(); err != nil {
			t.Fatal(err)
		}
		env.OnStop(shared.manager.End)
	})
	return prepare(t, sharedFilter, shared.manager)
}

// managerKubeconfig returns the kubeconfig of managers.
func managerKubeconfig(t *testing.T) string {
	t.Helper()
	account, err := env.ManagerAccount()
	if err != nil {
		t.Fatal(err)
	}
	return account.Kubeconfig
}

// newHarnessWithManager returns a new namespace with a manager of its own, which may
// be killed.
func newHarnessWithManager(t *testing.T, args ...string) *harness {
	t.Helper()
	w := prepareWithManager(t, args...)
	w.Expect(w.Start()).To(Succeed())
	return w
}

// prepareWithManager is newHarnessWithManager without starting the manager.
func prepareWithManager(t *testing.T, args ...string) *harness {
	t.Helper()
	t.Parallel()
	filter := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	w := prepare(t, filter[max(0, len(filter)-60):], &testenv.Manager{Kubeconfig: managerKubeconfig(t), WorkDir: t.TempDir()})
	w.Args = append([]string{"--namespace=" + w.namespace, "--watch-filter=" + w.filter}, args...)
	t.Cleanup(func() {
		if err := w.End(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func prepare(t *testing.T, filter string, m *testenv.Manager) *harness {
	w := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: env.Namespace(t), filter: strings.Trim(filter, "-"), dir: t.TempDir(), Manager: m}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("manager:\n%s", testenv.LogOf(m.Log(), w.namespace))
		}
	})
	return w
}

func (w *harness) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.WatchLabel: w.filter}}
}

// template creates a WorkspaceTemplate of an inline module.
func (w *harness) template(name, module string, change ...func(*infrav1.WorkspaceSpec)) {
	w.t.Helper()
	spec := infrav1.WorkspaceSpec{ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}}
	for _, c := range change {
		c(&spec)
	}
	w.create(&infrav1.WorkspaceTemplate{
		ObjectMeta: w.meta(name),
		Spec:       infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}},
	})
}

// apply creates a WorkspaceTemplateApply.
func (w *harness) apply(name, template string, change ...func(*infrav1.WorkspaceTemplateApplySpec)) {
	w.t.Helper()
	a := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: w.meta(name),
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef:                infrav1.TemplateReference{Name: template},
			WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: name + "-connection"},
			// Failures are retried soon.
			Retry: &infrav1.RetryPolicy{MinBackoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 2 * time.Second}},
		},
	}
	for _, c := range change {
		c(&a.Spec)
	}
	w.create(a)
}

// hello creates the workspace hello, with a template of its own, and waits until it is ready.
func (w *harness) hello(template, module string, change ...func(*infrav1.WorkspaceTemplateApplySpec)) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	w.template(template, module)
	w.apply("hello", template, change...)
	return w.waitReady("hello")
}

func (w *harness) create(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Create(w.ctx, obj)).To(Succeed())
}

func (w *harness) get(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	a := &infrav1.WorkspaceTemplateApply{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, a)).To(Succeed())
	return a
}

// change edits a workspace, and retries on a conflict.
func (w *harness) change(name string, edit func(*infrav1.WorkspaceTemplateApply)) {
	w.t.Helper()
	w.Eventually(func() error {
		a := w.get(name)
		edit(a)
		return env.Client.Update(w.ctx, a)
	}, testTimeout).Should(Succeed())
}

// changeTemplate edits a template, and retries on a conflict.
func (w *harness) changeTemplate(name string, edit func(*infrav1.WorkspaceSpec)) {
	w.t.Helper()
	t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	objecttest.New(w.t, env.Client).Update(t, func() { edit(&t.Spec.Template.Spec) })
}

func (w *harness) annotate(name, key, value string) {
	w.t.Helper()
	w.change(name, func(a *infrav1.WorkspaceTemplateApply) {
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[key] = value
	})
}

// request requests an operation of a workspace.
func (w *harness) request(name string, spec infrav1.WorkspaceOperationSpec) *infrav1.WorkspaceOperation {
	w.t.Helper()
	spec.Workspace, spec.WorkspaceUID = name, w.get(name).UID
	o := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: name + "-"}, Spec: spec}
	w.create(o)
	return o
}

func (w *harness) requestRun(name string) *infrav1.WorkspaceOperation {
	w.t.Helper()
	return w.request(name, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun})
}

func (w *harness) adopt(name, version string) {
	w.t.Helper()
	w.request(name, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &infrav1.AdoptOptions{State: version}})
}

// waitPhase waits until an operation has a phase.
func (w *harness) waitPhase(o *infrav1.WorkspaceOperation, phase infrav1.OperationPhase) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(w.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		g.Expect(o.Status.Phase).To(Equal(phase), o.Status.Message)
	}, testTimeout).Should(Succeed())
}

// decide approves or rejects a plan of a workspace.
func (w *harness) decide(name, plan string, decision infrav1.ApprovalDecision, allowDestroy ...string) {
	w.t.Helper()
	w.create(&infrav1.WorkspaceApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: name + "-"},
		Spec:       infrav1.WorkspaceApprovalSpec{Workspace: name, WorkspaceUID: w.get(name).UID, Plan: plan, Decision: decision, AllowDestroy: allowDestroy},
	})
}

// allowDestroy approves the plan that the workspace shows, and lets it destroy protected resources.
func (w *harness) allowDestroy(name string, addresses ...string) {
	w.t.Helper()
	w.decide(name, w.get(name).Status.Plan.ID, infrav1.DecisionApprove, addresses...)
}

// waitReady waits until the workspace is ready for its current generation.
func (w *harness) waitReady(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	var a *infrav1.WorkspaceTemplateApply
	w.Eventually(func(g Gomega) {
		a = w.get(name)
		ready := objecttest.Condition(a, infrav1.ReadyCondition)
		g.Expect(objecttest.Text(ready)).To(HavePrefix("True"))
		g.Expect(ready.ObservedGeneration).To(Equal(a.Generation))
	}, testTimeout).Should(Succeed())
	return a
}

// waitLineage waits for the annotation of a workspace with the lineage of its state, which is
// written after the status, and returns it.
func (w *harness) waitLineage(name string) string {
	w.t.Helper()
	var lineage string
	w.Eventually(func() string {
		lineage = w.get(name).Annotations[infrav1.StateLineageAnnotation]
		return lineage
	}, testTimeout).ShouldNot(BeEmpty())
	return lineage
}

// waitReason waits until a condition is False with the reason.
func (w *harness) waitReason(name, kind, reason string) metav1.Condition {
	w.t.Helper()
	var c metav1.Condition
	w.Eventually(func(g Gomega) {
		c = objecttest.Condition(w.get(name), kind)
		g.Expect(objecttest.Text(c)).To(HavePrefix("False " + reason))
	}, testTimeout).Should(Succeed())
	return c
}

// reconsider changes a field that no run uses, and waits until the condition is that of
// the new generation: the manager has handled earlier changes too.
func (w *harness) reconsider(name, kind string) {
	w.t.Helper()
	w.change(name, func(a *infrav1.WorkspaceTemplateApply) { *a.Spec.HistoryLimit++ })
	w.Eventually(func(g Gomega) {
		a := w.get(name)
		g.Expect(objecttest.Condition(a, kind).ObservedGeneration).To(Equal(a.Generation))
	}, testTimeout).Should(Succeed())
}

// lose deletes a Secret that its finalizer keeps, as clusterctl does after a move.
func (w *harness) lose(secret *corev1.Secret) {
	w.t.Helper()
	lost := secret.DeepCopy()
	// The garbage collector may have deleted that of a run.
	w.Expect(client.IgnoreNotFound(env.Client.Patch(w.ctx, lost, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	w.Expect(client.IgnoreNotFound(env.Client.Delete(w.ctx, lost))).To(Succeed())
}

func (w *harness) delete(name string) {
	w.t.Helper()
	w.Expect(env.Client.Delete(w.ctx, w.get(name))).To(Succeed())
}

func (w *harness) waitDeleted(name string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		a := &infrav1.WorkspaceTemplateApply{}
		err := env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, a)
		c := objecttest.Condition(a, infrav1.DestroyedCondition)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s %s: %s", c.Status, c.Reason, c.Message)
	}, testTimeout).Should(Succeed())
}

// destroy deletes a workspace and waits until it is gone.
func (w *harness) destroy(name string) {
	w.t.Helper()
	w.delete(name)
	w.waitDeleted(name)
}

func (w *harness) secret(name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, s)).To(Succeed())
	return s
}

// secrets returns the names of the Secrets of the namespace.
func (w *harness) secrets() []string {
	w.t.Helper()
	var list corev1.SecretList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

// secretsWith returns the names of the Secrets of the namespace that have a prefix.
func (w *harness) secretsWith(prefix string) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.secrets(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// waitReplaced waits until another plan waits for approval.
func (w *harness) waitReplaced(name, plan, condition string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		a := w.get(name)
		g.Expect(a.Status.Plan).NotTo(BeNil())
		g.Expect(a.Status.Plan.ID).NotTo(Equal(plan))
		g.Expect(objecttest.Condition(a, condition).Reason).To(Equal(infrav1.WaitingForApprovalReason))
	}, testTimeout).Should(Succeed())
}

// log returns the log of a run.
func (w *harness) log(runID string) string {
	w.t.Helper()
	text, err := record.Log(w.secret(record.SecretName(runID)))
	w.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// file returns the content of a file that a module created, or "".
func (w *harness) file(name string) string {
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func variables(values map[string]string) func(*infrav1.WorkspaceTemplateApplySpec) {
	return func(s *infrav1.WorkspaceTemplateApplySpec) {
		if s.Variables == nil {
			s.Variables = map[string]infrav1.Value{}
		}
		for name, value := range values {
			s.Variables[name] = infrav1.StringValue(value)
		}
	}
}

func (w *harness) git(dir string, args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), string(out))
}

func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
