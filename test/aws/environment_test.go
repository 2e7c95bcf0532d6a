package aws

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/webhooks"
)

// environment is the management cluster of all cases: an API server with Cluster API, and
// the manager. Each case has a namespace.
type environment struct {
	*testenv.Environment

	// log is the file with the output of the manager.
	log string
}

var (
	startOnce sync.Once
	started   *environment
	startErr  error
)

// TestMain stops the environment, which the first case that needs it starts.
func TestMain(m *testing.M) {
	// The logs of the webhooks in this process are irrelevant.
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the environment:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedEnvironment returns the environment of all cases.
func sharedEnvironment() (*environment, error) {
	startOnce.Do(func() {
		e := &environment{}
		if e.Environment, startErr = testenv.Start(
			testenv.WithClusterAPI(), testenv.WithControllerManager(), testenv.WithWebhooks(webhooks.Setup), testenv.WithStarted(e.startManager),
		); startErr == nil {
			started = e
		}
	})
	return started, startErr
}

// startManager starts the manager. The provider comes from the mirror of its CLI
// configuration.
func (e *environment) startManager(env *testenv.Environment) error {
	work := filepath.Join(env.Dir, "manager")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("creating the directory of the manager: %w", err)
	}
	mirror, err := writeMirror(work)
	if err != nil {
		return err
	}
	manager := &testenv.Manager{Kubeconfig: env.Kubeconfig, WorkDir: work, Env: []string{"TF_CLI_CONFIG_FILE=" + mirror}}
	e.log = manager.Log()
	env.OnStop(manager.End)
	return manager.Start()
}

// startManagement returns a namespace of the management cluster.
func startManagement(e *emulator) *management {
	e.t.Helper()
	env, err := sharedEnvironment()
	e.Expect(err).NotTo(HaveOccurred())
	m := &management{emulator: e, cluster: "demo", env: env, namespace: env.Namespace(e.t)}
	e.t.Cleanup(func() {
		if e.t.Failed() {
			e.t.Logf("manager:\n%s", testenv.LogOf(env.log, m.namespace))
		}
	})
	return m
}
