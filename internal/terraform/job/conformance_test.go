package job_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	runnerImage = "capt.test/runner:1"
	witnessPath = "/usr/local/bin/witness"
)

// startNode starts a cluster that runs pods and has the runner's image.
func startNode(t *testing.T) *testenv.Environment {
	t.Helper()
	testenv.NeedsNode(t)
	cluster := testenv.New(t, testenv.WithNode())
	files := map[string]string{witnessPath: runnertest.BuildWitness(t)}
	var err error
	if files["/runner"], err = testenv.Built("runner"); err != nil {
		t.Fatal(err)
	}
	if files["/usr/local/bin/tofu"], err = testenv.Part("tofu"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Node().LoadImage(runnerImage, "/runner", files); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// restricted makes a namespace that takes only pods of the strictest standard.
func restricted(t *testing.T, cluster *testenv.Environment) string {
	t.Helper()
	name := cluster.Namespace(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	namespace := &corev1.Namespace{}
	namespace.Name = name
	if err := cluster.Client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNode(t *testing.T) {
	cluster := startNode(t)
	harness := func(t *testing.T) runnertest.Harness {
		return runnertest.Harness{
			Runner:    job.New(job.Options{Client: cluster.Client, Reader: cluster.Client, Image: runnerImage}),
			Client:    cluster.Client,
			Namespace: restricted(t, cluster), Witness: witnessPath, Listen: cluster.Node().Address, Patience: 2 * time.Minute,
			Kill: func(t testing.TB, run terraform.Run, _ *record.Identity) {
				// The first process of the pod is only there to outlive the runner.
				kill(t, slices.Max(processes(t, run)))
			},
		}
	}
	t.Run("Conformance", func(t *testing.T) { runnertest.Run(t, harness) })
	t.Run("Container", func(t *testing.T) {
		h := harness(t)
		h.Kill = func(t testing.TB, run terraform.Run, _ *record.Identity) { kill(t, slices.Min(processes(t, run))) }
		runnertest.TakesOverWithoutTheTool(t, h)
	})
	t.Run("Kubelet", func(t *testing.T) {
		runnertest.WaitsForASilentMachine(t, harness(t), cluster.Node().Freeze, cluster.Node().Thaw)
	})
	t.Run("Image", func(t *testing.T) { namesAnImageThatCannotBePulled(t, cluster) })
	t.Run("Account", func(t *testing.T) { namesAnAccountThatDoesNotExist(t, cluster) })
}

func namesAnImageThatCannotBePulled(t *testing.T, cluster *testenv.Environment) {
	w := &world{WithT: NewWithT(t), t: t, env: cluster, ctx: t.Context(), namespace: restricted(t, cluster)}
	w.executor = job.New(job.Options{Client: cluster.Client, Reader: cluster.Client, Image: "capt.test/missing:1"})
	run := w.run(w.workspace("image"))
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Eventually(func() (string, error) { return w.executor.Explain(w.ctx, run) }, time.Minute, 100*time.Millisecond).
		Should(And(ContainSubstring("ImagePull"), ContainSubstring("capt.test/missing:1")))
	w.Expect(w.executor.Observe(w.ctx, run)).To(Equal(terraform.LivenessRunning), "the image may still come")
	w.Expect(w.executor.Stop(w.ctx, run)).To(Succeed())
	w.Expect(record.Finished(w.secret(run))).To(BeTrue())
	w.Eventually(func() error { return client.IgnoreNotFound(w.get(&batchv1.Job{}, "capt-run-image-r1")) }, time.Minute).Should(Succeed())
}

func namesAnAccountThatDoesNotExist(t *testing.T, cluster *testenv.Environment) {
	w := &world{WithT: NewWithT(t), t: t, env: cluster, ctx: t.Context(), namespace: restricted(t, cluster)}
	w.executor = job.New(job.Options{Client: cluster.Client, Reader: cluster.Client, Image: runnerImage})
	run := w.run(w.workspace("account"))
	run.Pod.ServiceAccountName = "missing"
	w.Expect(w.executor.Start(w.ctx, run)).To(Succeed())
	w.Eventually(func() (string, error) { return w.executor.Explain(w.ctx, run) }, time.Minute, 100*time.Millisecond).
		Should(ContainSubstring(`serviceaccount "missing" not found`))
	w.Expect(w.executor.Stop(w.ctx, run)).To(Succeed())
}

// processes finds the runner's processes by their arguments.
func processes(t testing.TB, run terraform.Run) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range paths {
		args, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(args, []byte("\x00--namespace="+run.Namespace+"\x00--run="+run.ID+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("run %s has processes %v, not a first one and a runner", run.ID, pids)
	}
	return pids
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
