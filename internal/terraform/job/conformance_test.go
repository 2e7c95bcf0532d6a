package job_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

const (
	runnerImage    = "capt.test/runner:1"
	terraformImage = "capt.test/runner-terraform:1"
	probePath      = "/usr/local/bin/probe"
)

// startNode starts a cluster that runs pods and has the image of the runner.
func startNode(t *testing.T) *testenv.Environment {
	t.Helper()
	testenv.NeedsNode(t)
	cluster := testenv.New(t, testenv.WithNode())
	files := map[string]string{probePath: runnertest.BuildProbe(t)}
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
	if tool := commandtest.Terraform(); tool != "" {
		delete(files, "/usr/local/bin/tofu")
		files["/usr/local/bin/terraform"] = tool
		if err := cluster.Node().LoadImage(terraformImage, "/runner", files); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// restricted creates a namespace that enforces the restricted Pod Security
// Standard.
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
	image := runnerImage
	manager, err := cluster.ManagerAccount()
	if err != nil {
		t.Fatal(err)
	}
	harness := func(t *testing.T) runnertest.Harness {
		return runnertest.Harness{
			Runner:    job.New(job.Options{Client: manager.Client, Reader: manager.Client, Image: image}),
			Client:    cluster.Client,
			Namespace: restricted(t, cluster), Probe: probePath, ListenAddress: cluster.Node().Address,
			Kill: func(t testing.TB, run terraform.Run, _ *record.Identity) {
				// The first process of the pod is the parent of the runner.
				kill(t, slices.Max(processes(t, run)))
			},
			Terminate: func(t testing.TB, run terraform.Run, identity *record.Identity) {
				// As kubectl drain does.
				pod := &corev1.Pod{}
				pod.Namespace, pod.Name = run.Namespace, identity.PodName
				if err := cluster.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
	t.Run("Conformance", func(t *testing.T) {
		runnertest.Run(t, harness)
		runnertest.RunBackends(t, harness)
	})
	if commandtest.Terraform() != "" {
		image = terraformImage
		t.Run("Terraform", func(t *testing.T) { runnertest.RunBackends(t, harness) })
		image = runnerImage
	}
	t.Run("Container", func(t *testing.T) {
		h := harness(t)
		h.Kill = func(t testing.TB, run terraform.Run, _ *record.Identity) { kill(t, slices.Min(processes(t, run))) }
		runnertest.RecoversFromKilledTool(t, h)
	})
	t.Run("Kubelet", func(t *testing.T) {
		runnertest.WaitsForUnresponsiveNode(t, harness(t), cluster.Node().Freeze, cluster.Node().Thaw)
	})
	t.Run("Image", func(t *testing.T) { explainsAnImageThatCannotBePulled(t, cluster) })
	t.Run("Account", func(t *testing.T) { explainsAMissingServiceAccount(t, cluster) })
}

func explainsAnImageThatCannotBePulled(t *testing.T, cluster *testenv.Environment) {
	f := &fixture{WithT: NewWithT(t), t: t, env: cluster, ctx: t.Context(), namespace: restricted(t, cluster)}
	f.executor = job.New(job.Options{Client: f.manager().Client, Reader: f.manager().Client, Image: "capt.test/missing:1"})
	run := f.start("image")
	f.Eventually(func() (string, error) { return f.executor.Explain(f.ctx, run) }).
		Should(And(ContainSubstring("ImagePull"), ContainSubstring("capt.test/missing:1")))
	f.Expect(f.executor.Observe(f.ctx, run)).To(Equal(terraform.LivenessRunning), "the image may still become available")
	f.Expect(f.executor.Stop(f.ctx, run, true)).To(Succeed())
	f.Expect(record.Finished(f.secret(run))).To(BeTrue())
	f.Eventually(func() error { return f.get(&batchv1.Job{}, "capt-run-image-r1") }).Should(MatchError(apierrors.IsNotFound, "is not found"))
}

func explainsAMissingServiceAccount(t *testing.T, cluster *testenv.Environment) {
	f := &fixture{WithT: NewWithT(t), t: t, env: cluster, ctx: t.Context(), namespace: restricted(t, cluster)}
	f.executor = job.New(job.Options{Client: f.manager().Client, Reader: f.manager().Client, Image: runnerImage})
	run := f.start("account", func(r *terraform.Request) { r.Pod.ServiceAccountName = "missing" })
	f.Eventually(func() (string, error) { return f.executor.Explain(f.ctx, run) }).
		Should(ContainSubstring(`serviceaccount "missing" not found`))
	f.Expect(f.executor.Stop(f.ctx, run, true)).To(Succeed())
}

// processes returns the PIDs of the runner's processes. It finds them by their
// arguments.
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
		t.Fatalf("run %s has processes %v, want the init process and the runner", run.ID, pids)
	}
	return pids
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
