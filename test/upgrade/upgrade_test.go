// Package upgrade replaces the previous version of CAPT by this one while it works.
package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

const (
	// enabled is the variable that enables the test.
	enabled     = "CAPT_TEST_UPGRADE"
	testTimeout = 5 * time.Minute
	templateRef = "traced"
)

// module creates resources one after the other, and records each in a file, which no
// state can hide.
const module = `
variable "trace" { type = string }
variable "pause" { type = number }
resource "terraform_data" "first" {
  input = { trace = var.trace, name = "first" }
  provisioner "local-exec" { command = "echo created first >> ${self.input.trace}" }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed first >> ${self.input.trace}"
  }
}
resource "terraform_data" "wait" {
  input      = terraform_data.first.id
  provisioner "local-exec" { command = "echo waiting >> ${var.trace}.waiting; sleep ${var.pause}" }
}
resource "terraform_data" "second" {
  depends_on = [terraform_data.wait]
  input      = { trace = var.trace, name = "second" }
  provisioner "local-exec" { command = "echo created second >> ${self.input.trace}" }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed second >> ${self.input.trace}"
  }
}
output "second" { value = terraform_data.second.id }
`

type harness struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	env       *testenv.Environment
	root, dir string
	namespace string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if os.Getenv(enabled) == "" {
		t.Skipf("set %s=1, or use make test-upgrade", enabled)
	}
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), dir: t.TempDir()}
	var err error
	h.root, err = testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	return h
}

func (h *harness) run(dir, name string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	h.Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// previous builds the programs of the previous version, and returns its source.
func (h *harness) previous() string {
	h.t.Helper()
	text, err := os.ReadFile("previous")
	h.Expect(err).NotTo(HaveOccurred())
	commit := strings.TrimSpace(string(text))
	if err := exec.Command("git", "-C", h.root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		h.t.Fatalf("commit %s of the previous version is not in this clone: fetch the whole history", commit)
	}
	source := filepath.Join(h.dir, "previous")
	h.Expect(os.Mkdir(source, 0o755)).To(Succeed())
	archive := filepath.Join(h.dir, "previous.tar")
	h.run(h.root, "git", "archive", "-o", archive, commit)
	h.run(h.root, "tar", "-xf", archive, "-C", source)
	h.run(source, "go", "build", "-o", "bin/", "./cmd/manager", "./cmd/runner")
	return source
}

func (h *harness) start(program string) *testenv.Manager {
	h.t.Helper()
	m := &testenv.Manager{
		Program: program, Kubeconfig: h.env.Kubeconfig, WorkDir: filepath.Join(h.dir, "work"),
		Args: []string{"--namespace=" + h.namespace, "--shutdown-timeout=20s"},
	}
	h.Expect(m.Start()).To(Succeed())
	h.t.Cleanup(func() {
		_ = m.End()
		if h.t.Failed() {
			h.t.Logf("manager:\n%s", testenv.LogOf(m.Log(), h.namespace))
		}
	})
	return m
}

func (h *harness) trace(name string) string { return filepath.Join(h.dir, name+".trace") }

// events returns what happened to the resources of a workspace.
func (h *harness) events(name string) []string {
	text, err := os.ReadFile(h.trace(name))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

func (h *harness) create(name string, pause int, change ...func(*infrav1.WorkspaceTemplateApplySpec)) {
	h.t.Helper()
	value, err := infrav1.NewValue(pause)
	h.Expect(err).NotTo(HaveOccurred())
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	apply.Spec.TemplateRef.Name = templateRef
	apply.Spec.Variables = map[string]infrav1.Value{"trace": infrav1.StringValue(h.trace(name)), "pause": value}
	for _, c := range change {
		c(&apply.Spec)
	}
	h.Expect(h.env.Client.Create(h.ctx, apply)).To(Succeed())
}

func (h *harness) get(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, apply)).To(Succeed())
	return apply
}

func (h *harness) waitReady(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	h.Eventually(func() string {
		apply := h.get(name)
		c := objecttest.Condition(apply, infrav1.ReadyCondition)
		if c.ObservedGeneration != apply.Generation {
			return "not observed"
		}
		return objecttest.Text(c)
	}, testTimeout, 100*time.Millisecond).Should(HavePrefix("True"), name)
	return h.get(name)
}

func (h *harness) waiting(name string) string {
	h.t.Helper()
	var id string
	h.Eventually(func() bool {
		plan := h.get(name).Status.Plan
		if plan == nil || plan.Waiting == nil || !*plan.Waiting {
			return false
		}
		id = plan.ID
		return true
	}, testTimeout, 100*time.Millisecond).Should(BeTrue())
	return id
}

func TestUpgrade_losesNothing(t *testing.T) {
	h := newHarness(t)
	source := h.previous()
	h.env = testenv.New(t, testenv.WithCRDs(filepath.Join(source, "config", "crd", "bases")))
	h.namespace = h.env.Namespace(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: templateRef}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	h.Expect(h.env.Client.Create(h.ctx, template)).To(Succeed())

	old := h.start(filepath.Join(source, "bin", "manager"))
	h.create("idle", 0)
	idle := h.waitReady("idle").Status.Runs
	h.create("planned", 0, func(s *infrav1.WorkspaceTemplateApplySpec) { s.Approval = infrav1.ApprovalManual })
	plan := h.waiting("planned")
	h.create("interrupted", 20)
	h.Eventually(h.trace("interrupted")+".waiting", testTimeout, 50*time.Millisecond).Should(BeAnExistingFile(), "its first resource is complete")
	h.Expect(h.events("interrupted")).To(HaveLen(1))
	h.Expect(old.Stop(syscall.SIGTERM)).To(Succeed())

	kubectl, err := testenv.Part("kubectl")
	h.Expect(err).NotTo(HaveOccurred())
	h.run(h.root, kubectl, "--kubeconfig", h.env.Kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join("config", "crd", "bases"))
	h.start("")
	// The previous version interrupts an apply when it stops. The plan that replaces the resource
	// which this left tainted waits for a person.
	h.approve("interrupted", h.waiting("interrupted"))
	h.waitReady("interrupted")
	h.Expect(h.events("interrupted")).To(ConsistOf("created first\n", "created second\n"), "each resource is created once")
	h.create("after", 0)
	h.waitReady("after")
	h.Expect(h.waitReady("idle").Status.Runs).To(Equal(idle), "an upgrade does not cause a run")
	h.Expect(h.events("idle")).To(HaveLen(2))

	h.Expect(h.events("planned")).To(BeEmpty(), "nothing is applied without approval")
	h.Expect(h.waiting("planned")).To(Equal(plan), "the plan still waits")
	h.approve("planned", plan)
	h.Expect(h.waitReady("planned").Status.Plan.ID).To(Equal(plan), "the approved plan is applied")
	h.Expect(h.events("planned")).To(ConsistOf("created first\n", "created second\n"))

	for _, name := range []string{"idle", "planned", "interrupted", "after"} {
		h.Expect(h.env.Client.Delete(h.ctx, h.get(name))).To(Succeed())
	}
	for _, name := range []string{"idle", "planned", "interrupted", "after"} {
		h.Eventually(func() bool {
			return apierrors.IsNotFound(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &infrav1.WorkspaceTemplateApply{}))
		}, testTimeout, 100*time.Millisecond).Should(BeTrue(), name)
		h.Expect(h.events(name)).To(ContainElements("destroyed first\n", "destroyed second\n"), name)
		h.Expect(h.events(name)).To(HaveLen(4), name)
	}
	h.Eventually(func() ([]string, error) {
		var secrets corev1.SecretList
		err := h.env.Client.List(h.ctx, &secrets, client.InNamespace(h.namespace), client.HasLabels{infrav1.WorkspaceLabel})
		var names []string
		for _, secret := range secrets.Items {
			names = append(names, secret.Name)
		}
		return names, err
	}, testTimeout).Should(BeEmpty())
}

func (h *harness) approve(name, plan string) {
	h.t.Helper()
	apply := h.get(name)
	patch := fmt.Sprintf(`{"spec":{"approvedPlan":%q}}`, plan)
	h.Expect(h.env.Client.Patch(h.ctx, apply, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}
