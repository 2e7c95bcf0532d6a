// Package engine tests the Terraform engine as users run it: the real manager,
// the real OpenTofu and the real API server.
package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env))
}

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// world is one namespace with a manager that looks after it.
type world struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	namespace string
	// dir is where modules leave traces of what they did.
	dir  string
	work string
	args []string

	mu      sync.Mutex
	manager *exec.Cmd
	done    chan struct{}
}

// newWorld starts a manager for a new namespace.
func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	w := &world{
		WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: env.Namespace(t),
		dir: t.TempDir(), work: t.TempDir(), args: args,
	}
	w.startManager()
	t.Cleanup(func() {
		w.stopManager(syscall.SIGTERM)
		if t.Failed() {
			log, _ := os.ReadFile(w.logFile())
			t.Logf("manager:\n%s", lastPart(string(log)))
		}
	})
	return w
}

func (w *world) logFile() string { return filepath.Join(w.work, "manager.log") }

func lastPart(text string) string {
	const most = 12000
	return text[max(0, len(text)-most):]
}

func (w *world) startManager() {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	tofu, err := testenv.Part("tofu")
	w.Expect(err).NotTo(HaveOccurred())
	log, err := os.OpenFile(w.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(root, "bin", "manager"), append([]string{
		"--namespace=" + w.namespace, "--webhook-port=0", "--health-addr=0", "--diagnostics-address=0",
		"--executor=process", "--terraform-binary=" + tofu, "--work-dir=" + w.work, "--max-runs=4", "-v=1",
	}, w.args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.Expect(cmd.Start()).To(Succeed(), "run `make build` first")
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); _ = log.Close(); close(done) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manager, w.done = cmd, done
}

// stopManager ends the manager and waits until it is gone.
func (w *world) stopManager(signal syscall.Signal) {
	w.mu.Lock()
	cmd, done := w.manager, w.done
	w.mu.Unlock()
	_ = cmd.Process.Signal(signal)
	select {
	case <-done:
	case <-time.After(patience):
		w.t.Errorf("the manager did not end")
		_ = cmd.Process.Kill()
	}
}

// template creates a WorkspaceTemplate of an inline module.
func (w *world) template(name, module string, change ...func(*infrav1.WorkspaceSpec)) {
	w.t.Helper()
	spec := infrav1.WorkspaceSpec{ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}}
	for _, c := range change {
		c(&spec)
	}
	w.create(&infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}},
	})
}

// apply creates a WorkspaceTemplateApply.
func (w *world) apply(name, template string, change ...func(*infrav1.WorkspaceTemplateApplySpec)) {
	w.t.Helper()
	a := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef:                infrav1.TemplateReference{Name: template},
			WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: name + "-connection"},
			// Failures are to be seen soon.
			Retry: &infrav1.RetryPolicy{MinBackoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 2 * time.Second}},
		},
	}
	for _, c := range change {
		c(&a.Spec)
	}
	w.create(a)
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Create(w.ctx, obj)).To(Succeed())
}

func (w *world) get(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	a := &infrav1.WorkspaceTemplateApply{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, a)).To(Succeed())
	return a
}

// change edits a workspace, again if somebody else was faster.
func (w *world) change(name string, edit func(*infrav1.WorkspaceTemplateApply)) {
	w.t.Helper()
	w.Eventually(func() error {
		a := w.get(name)
		edit(a)
		return env.Client.Update(w.ctx, a)
	}, patience).Should(Succeed())
}

func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	w.change(name, func(a *infrav1.WorkspaceTemplateApply) {
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[key] = value
	})
}

func condition(a *infrav1.WorkspaceTemplateApply, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(a.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: "Missing"}
}

// waitReady waits until the workspace is ready for its present generation.
func (w *world) waitReady(name string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	var a *infrav1.WorkspaceTemplateApply
	w.Eventually(func(g Gomega) {
		a = w.get(name)
		ready := condition(a, infrav1.ReadyCondition)
		g.Expect(fmt.Sprintf("%s %s: %s", ready.Status, ready.Reason, ready.Message)).To(HavePrefix("True"))
		g.Expect(ready.ObservedGeneration).To(Equal(a.Generation))
	}, patience, 50*time.Millisecond).Should(Succeed())
	return a
}

// waitReason waits until a condition is not True for the reason.
func (w *world) waitReason(name, kind, reason string) metav1.Condition {
	w.t.Helper()
	var c metav1.Condition
	w.Eventually(func(g Gomega) {
		c = condition(w.get(name), kind)
		g.Expect(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)).To(HavePrefix("False " + reason))
	}, patience, 50*time.Millisecond).Should(Succeed())
	return c
}

func (w *world) delete(name string) {
	w.t.Helper()
	w.Expect(env.Client.Delete(w.ctx, w.get(name))).To(Succeed())
}

func (w *world) waitGone(name string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		a := &infrav1.WorkspaceTemplateApply{}
		err := env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, a)
		c := condition(a, infrav1.DestroyedCondition)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s %s: %s", c.Status, c.Reason, c.Message)
	}, patience, 50*time.Millisecond).Should(Succeed())
}

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, s)).To(Succeed())
	return s
}

// secrets lists the Secrets of the namespace, by name.
func (w *world) secrets() []string {
	w.t.Helper()
	var list corev1.SecretList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

// log returns the log of a run.
func (w *world) log(runID string) string {
	w.t.Helper()
	text, err := record.Log(w.secret(record.SecretName(runID)))
	w.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// file returns what a module left in the directory, or "".
func (w *world) file(name string) string {
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
