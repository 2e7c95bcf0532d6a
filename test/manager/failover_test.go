package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// failoverTimeout is how long a takeover with its runs may take on a busy machine.
const failoverTimeout = 3 * time.Minute

// Two replicas run, and the leader is killed while it applies workspaces: the other one
// reports the results of the same runs, and starts no run a second time.
func TestManager_anotherLeaderFinishesRuns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := env.Namespace(t)
	trace := filepath.Join(t.TempDir(), "trace")
	hold := filepath.Join(t.TempDir(), "hold")
	g.Expect(os.WriteFile(hold, nil, 0o600)).To(Succeed())
	dir := t.TempDir()
	account, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	replica := func(name string) *testenv.Manager {
		m := &testenv.Manager{Kubeconfig: account.Kubeconfig, WorkDir: filepath.Join(dir, name), Args: []string{
			"--namespace=" + ns, "--leader-elect", "--leader-elect-namespace=" + ns,
			// A busy machine needs time to renew the lease.
			"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s",
		}}
		g.Expect(m.Start()).To(Succeed())
		t.Cleanup(func() {
			_ = m.Stop(syscall.SIGTERM)
			if t.Failed() {
				text, _ := os.ReadFile(m.Log())
				t.Logf("%s:\n%s", name, text[max(0, len(text)-6000):])
			}
		})
		return m
	}
	leader := replica("first")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "capt-manager-leader"}}
	g.Eventually(func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease) }, failoverTimeout, 100*time.Millisecond).Should(Succeed())
	holder := *lease.Spec.HolderIdentity
	standby := replica("second")

	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: fmt.Sprintf(`
variable "name" { type = string }
resource "terraform_data" "this" {
  provisioner "local-exec" {
    command = "echo ${var.name} >> %s; while [ -e %s ]; do sleep 0.1; done"
  }
}
`, trace, hold)}
	g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
	names := []string{"one", "two", "three"}
	for _, name := range names {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		apply.Spec.TemplateRef.Name = "slow"
		apply.Spec.Variables = map[string]infrav1.Value{"name": infrav1.StringValue(name)}
		g.Expect(env.Client.Create(t.Context(), apply)).To(Succeed())
	}
	created := func() []string {
		text, _ := os.ReadFile(trace)
		return strings.Fields(string(text))
	}
	g.Eventually(created, failoverTimeout, 50*time.Millisecond).ShouldNot(BeEmpty(), "a run changes something")

	g.Expect(leader.Stop(syscall.SIGKILL)).To(Succeed())
	g.Eventually(func() (string, error) {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)
		return *lease.Spec.HolderIdentity, err
	}, failoverTimeout, 100*time.Millisecond).ShouldNot(Equal(holder), "the other replica is the leader")
	g.Expect(os.Remove(hold)).To(Succeed())

	for _, name := range names {
		g.Eventually(func(g Gomega) {
			var apply infrav1.WorkspaceTemplateApply
			g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &apply)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition)).To(BeTrue(), "%v", apply.Status.Conditions)
			g.Expect(apply.Status.Runs).To(BeEquivalentTo(1), name)
		}, failoverTimeout, 200*time.Millisecond).Should(Succeed())
	}
	g.Expect(created()).To(ConsistOf(names), "each resource is created once")
	g.Expect(standby.PID()).NotTo(BeZero())
	var runs corev1.SecretList
	g.Expect(env.Client.List(t.Context(), &runs, client.InNamespace(ns), client.MatchingLabels{infrav1.ComponentLabel: "run"})).To(Succeed())
	g.Expect(runs.Items).To(HaveLen(len(names)), "there is one run for each workspace")
}
