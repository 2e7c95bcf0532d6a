package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// program is the path of localcluster, assets the directory of Kubernetes' programs,
// and scratch the parent directory of all tests.
var program, assets, scratch string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if assets, err = testenv.Assets(); err != nil {
		return 1, err
	}
	if scratch, err = os.MkdirTemp("", "capt-local-test-"); err != nil {
		return 1, err
	}
	stop, err := testenv.KillAtEnd(scratch)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch), stop()) }()
	program = filepath.Join(scratch, "localcluster")
	build := exec.Command("go", "build", "-o", program, "github.com/appthrust/capt/cmd/localcluster")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 1, fmt.Errorf("building localcluster: %w", err)
	}
	code = m.Run()
	if left := testenv.ProcessesOf(scratch); len(left) > 0 {
		return 1, fmt.Errorf("processes are still running after the tests: %v", left)
	}
	return code, nil
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9]+`)

// newCluster returns a control plane that is removed at the end of the test.
func newCluster(t *testing.T) *Cluster {
	t.Helper()
	cluster, err := New(filepath.Join(scratch, unsafe.ReplaceAllString(t.Name(), "-")))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Supervisor = []string{program, "run"}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{supervisorLog, APIServer} {
				t.Logf("%s: %s", name, host.LogTail(cluster.Log(name), logLimit))
			}
		}
		if err := cluster.Down(context.Background()); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
		if left := testenv.ProcessesOf(cluster.Dir); len(left) > 0 {
			t.Errorf("processes are still running: %v", left)
		}
	})
	return cluster
}

func spec(change ...func(*Spec)) Spec {
	s := Spec{Name: "demo", KubernetesVersion: "1.37", BinDir: assets}
	for _, c := range change {
		c(&s)
	}
	return s
}

func mustUp(t *testing.T, cluster *Cluster, s Spec) *Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Timeout)
	defer cancel()
	status, err := cluster.Up(ctx, s)
	if err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	if !status.Ready {
		t.Fatalf("Up returned before the cluster was ready: %+v", status)
	}
	return status
}

// connect returns a client for the cluster's kubeconfig.
func connect(t *testing.T, cluster *Cluster) client.Client {
	t.Helper()
	return connectWith(t, cluster, nil)
}

// connectWith returns a client with a scheme.
func connectWith(t *testing.T, cluster *Cluster, known *runtime.Scheme) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// note creates a ConfigMap that a test looks up with findNote.
func note(t *testing.T, cluster *Cluster, name string) {
	t.Helper()
	err := connect(t, cluster).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	if err != nil {
		t.Fatalf("creating a ConfigMap: %v", err)
	}
}

func findNote(t *testing.T, cluster *Cluster, name string) error {
	t.Helper()
	return connect(t, cluster).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &corev1.ConfigMap{})
}

// part returns the status of a part.
func part(t *testing.T, cluster *Cluster, name string) PartStatus {
	t.Helper()
	status, err := cluster.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Parts {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no part %s in %+v", name, status.Parts)
	return PartStatus{}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
