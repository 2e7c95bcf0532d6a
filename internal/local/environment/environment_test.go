package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// testTimeout is long because other tests keep the machine busy.
const testTimeout = waits.Timeout

// newEnvironment returns an environment that is removed at the end of the test.
func newEnvironment(t *testing.T, name string) *Environment {
	t.Helper()
	base, err := os.MkdirTemp("", "capt-environment-")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := testenv.KillAtEnd(base)
	if err != nil {
		t.Fatal(err)
	}
	environment, err := New(name, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, part := range []string{"supervisor", ClusterAPI, Manager} {
				text, _ := os.ReadFile(environment.Log(part))
				t.Logf("%s: %s", part, message.Tail(string(text), 3000))
			}
		}
		if err := environment.Down(context.Background(), func(Step) {}); err != nil {
			t.Errorf("stopping the environment: %v", err)
		}
		if left := testenv.ProcessesOf(base); len(left) > 0 {
			t.Errorf("processes are still running: %v", left)
		}
		if left, _ := filepath.Glob(filepath.Join(base, "*")); len(left) > 0 {
			t.Errorf("files were not removed: %v", left)
		}
		if err := errors.Join(os.RemoveAll(base), stop()); err != nil {
			t.Error(err)
		}
	})
	return environment
}

func mustUp(t *testing.T, environment *Environment) *Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	status, err := environment.Up(ctx, func(step Step) {
		if step.Done {
			t.Logf("%s: %s after %s", step.Name, step.Note, step.Took)
		}
	})
	if err != nil {
		t.Fatalf("starting the environment: %v", err)
	}
	if !status.Ready {
		t.Fatalf("Up returned before the environment was ready: %+v", status)
	}
	return status
}

func pids(status *Status) map[string]int {
	found := map[string]int{}
	for _, part := range status.Parts {
		found[part.Name] = part.PID
	}
	return found
}

func TestEnvironment_createsClustersAndSurvivesCrashes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	environment := newEnvironment(t, "first")
	before := mustUp(t, environment)
	g.Expect(before.Kubeconfig).To(BeARegularFile())
	for _, name := range []string{"kubectl", "captctl", "kubectl-capt", "tofu"} {
		g.Expect(filepath.Join(environment.BinDir(), name)).To(BeARegularFile())
	}
	for _, part := range before.Parts {
		g.Expect(part.Log).To(BeARegularFile())
	}
	c, err := environment.Client()
	g.Expect(err).NotTo(HaveOccurred())

	// Both webhooks are called.
	bad := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "bad"}}
	bad.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: "Inline", Module: "resource {"}
	g.Expect(c.Create(t.Context(), bad)).To(MatchError(ContainSubstring("denied the request")))
	unknown := cluster("bad", "no-such-version")
	g.Expect(c.Create(t.Context(), unknown)).To(MatchError(ContainSubstring("denied the request")))

	g.Expect(c.Create(t.Context(), cluster("demo", "v1.36.0"))).To(Succeed())
	var controlPlanes controlplanev1.CAPTControlPlaneList
	g.Eventually(func(g Gomega) {
		g.Expect(c.List(t.Context(), &controlPlanes, client.InNamespace(Namespace))).To(Succeed())
		g.Expect(controlPlanes.Items).To(HaveLen(1))
		g.Expect(controlPlanes.Items[0].Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()))
	}).WithTimeout(testTimeout).Should(Succeed())

	t.Run("parts are restarted", func(t *testing.T) {
		g := NewWithT(t)
		for _, victim := range []string{ClusterAPI, Manager} {
			dead := pids(before)[victim]
			g.Expect(syscall.Kill(dead, syscall.SIGKILL)).To(Succeed())
		}
		var now *Status
		g.Eventually(func(g Gomega) {
			var err error
			now, err = environment.Status(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Ready).To(BeTrue())
			for _, victim := range []string{ClusterAPI, Manager} {
				g.Expect(pids(now)[victim]).NotTo(Equal(pids(before)[victim]))
			}
		}).WithTimeout(testTimeout).Should(Succeed())
		again := mustUp(t, environment)
		g.Expect(pids(again)).To(Equal(pids(now)), "running parts are not restarted")
		g.Expect(again.Endpoint).To(Equal(before.Endpoint))
	})
	t.Run("Up restarts supervisors", func(t *testing.T) {
		g := NewWithT(t)
		clusters, err := environment.workloads("")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(clusters).To(HaveLen(1))
		management, err := environment.management("")
		g.Expect(err).NotTo(HaveOccurred())
		for _, victim := range append(clusters, management) {
			status, err := victim.Status(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(syscall.Kill(status.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
		}
		g.Eventually(func() bool { s, _ := environment.Status(t.Context()); return s.Running }).WithTimeout(testTimeout).Should(BeFalse())
		after := mustUp(t, environment)
		g.Expect(after.Endpoint).To(Equal(before.Endpoint))
		g.Expect(after.Clusters).To(HaveLen(1))
		g.Expect(after.Clusters[0].Ready).To(BeTrue())
		g.Expect(after.Clusters[0].Directory).To(HavePrefix(environment.Dir))
		g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: "demo-kubeconfig"}, &corev1.Secret{})).To(Succeed(), "etcd keeps the data")
	})
}

func cluster(name, version string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "local"}, Version: version,
		}},
	}
}

func TestEnvironment_isIndependentOfAnother(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	environment := newEnvironment(t, "second")
	nothing, err := environment.Status(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nothing.Exists).To(BeFalse())
	g.Expect(environment.Down(t.Context(), nil)).To(Succeed(), "nothing is running")

	status := mustUp(t, environment)
	g.Expect(status.Clusters).To(BeEmpty())
	c, err := environment.Client()
	g.Expect(err).NotTo(HaveOccurred())
	err = c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: "demo"}, &clusterv1.Cluster{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "clusters belong to one environment")
	g.Expect(environment.Down(t.Context(), func(Step) {})).To(Succeed())
	g.Expect(environment.Dir).NotTo(BeADirectory())
	for _, part := range status.Parts {
		g.Expect(alive(part.Process)).To(BeFalse(), part.Name)
	}
}

func alive(identity controlplane.Process) bool {
	process, err := procfs.NewProc(identity.PID)
	if err != nil {
		return false
	}
	stat, err := process.Stat()
	return err == nil && stat.State != "Z" && strings.HasSuffix(identity.Started, fmt.Sprintf("/%d", stat.Starttime))
}

func TestEnvironment_refusesAForeignDirectory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	environment, err := New("mine", t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.MkdirAll(environment.Dir, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(environment.path("foreign.txt"), nil, 0o600)).To(Succeed())
	const refusal = "contains files that do not belong to an environment"
	g.Expect(environment.Up(t.Context(), func(Step) {})).Error().To(MatchError(ContainSubstring(refusal)))
	g.Expect(environment.Down(t.Context(), func(Step) {})).To(MatchError(ContainSubstring(refusal)))
	g.Expect(environment.path("foreign.txt")).To(BeARegularFile())
}
