package aws

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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
	program, err := testenv.Built("manager")
	if err != nil {
		return err
	}
	tool, err := testenv.Part("tofu")
	if err != nil {
		return err
	}
	work := filepath.Join(env.Dir, "manager")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("creating the directory of the manager: %w", err)
	}
	mirror, err := writeMirror(work)
	if err != nil {
		return err
	}
	e.log = filepath.Join(work, "manager.log")
	log, err := os.Create(e.log)
	if err != nil {
		return fmt.Errorf("creating the log of the manager: %w", err)
	}
	cmd := exec.Command(program, "--webhook-port=0", "--health-addr=0", "--diagnostics-address=0",
		"--allowed-cidrs=127.0.0.0/8,::1/128", "--executor=process", "--terraform-binary="+tool, "--work-dir="+work, "--max-runs=4", "-v=1")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig, "TF_CLI_CONFIG_FILE="+mirror)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	env.OnStop(func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		return log.Close()
	})
	return nil
}

// startManagement returns a namespace of the management cluster.
func startManagement(e *emulator) *management {
	e.t.Helper()
	env, err := sharedEnvironment()
	e.Expect(err).NotTo(HaveOccurred())
	m := &management{emulator: e, cluster: "demo", env: env, namespace: env.Namespace(e.t)}
	e.t.Cleanup(func() {
		if e.t.Failed() {
			e.t.Logf("manager:\n%s", m.managerLog())
		}
	})
	return m
}

// managerLog returns the last lines about the namespace in the log of the manager.
func (m *management) managerLog() string {
	const most = 40
	text, err := os.ReadFile(m.env.log)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, m.namespace) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}
