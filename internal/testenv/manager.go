package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/message"
)

// managerStopTimeout is how long a manager may take to stop on a busy machine.
const managerStopTimeout = 3 * time.Minute

// Manager is the manager program of this repository, which runs Terraform as child
// processes. It can be stopped, killed and started again.
type Manager struct {
	// Program is the path of another manager, which is built with its runner beside it.
	Program    string
	Kubeconfig string
	// WorkDir is the working directory. It is created if it does not exist.
	WorkDir string
	// Args are added to the flags of tests, and take precedence over them.
	Args []string
	// Env are added to the environment of the test.
	Env []string

	mu          sync.Mutex
	cmd         *exec.Cmd
	exited      chan struct{}
	diagnostics string
}

// Log returns the path of the log. All processes of a Manager append to it.
func (m *Manager) Log() string { return filepath.Join(m.WorkDir, "manager.log") }

// LogOf returns the end of a manager's log: the lines about a namespace, and the errors.
func LogOf(path, namespace string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, namespace) || strings.HasPrefix(line, "E") {
			text.WriteString(line)
		}
	}
	return message.Tail(text.String(), 12000)
}

// Start starts the manager. It does not wait until the manager is ready.
func (m *Manager) Start() error {
	program := m.Program
	if program == "" {
		var err error
		if program, err = Built("manager"); err != nil {
			return err
		}
	}
	tofu, err := Part("tofu")
	if err != nil {
		return err
	}
	diagnostics, err := FreeAddress()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.WorkDir, 0o700); err != nil {
		return fmt.Errorf("creating the manager's directory: %w", err)
	}
	log, err := os.OpenFile(m.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the manager's log: %w", err)
	}
	cmd := exec.Command(program, append([]string{
		"--webhook-port=0", "--health-addr=0", "--diagnostics-address=" + diagnostics, "--insecure-diagnostics",
		"--allowed-cidrs=127.0.0.0/8,::1/128", // Workload clusters of tests are on this machine.
		"--executor=process", "--terraform-binary=" + tofu, "--work-dir=" + m.WorkDir, "--max-runs=4", "-v=1",
	}, m.Args...)...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+m.Kubeconfig), m.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", errors.Join(err, log.Close()))
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); _ = log.Close(); close(exited) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cmd, m.exited, m.diagnostics = cmd, exited, diagnostics
	return nil
}

// Stop sends a signal to the manager, and waits until it has exited. A manager that
// does not exit in time is killed, and Stop returns an error.
func (m *Manager) Stop(signal syscall.Signal) error {
	m.mu.Lock()
	cmd, exited := m.cmd, m.exited
	m.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(signal)
	select {
	case <-exited:
		return nil
	case <-time.After(managerStopTimeout):
		return errors.Join(errors.New("the manager did not stop"), cmd.Process.Kill())
	}
}

// End stops the manager and kills the runs that it leaves.
func (m *Manager) End() error {
	err := m.Stop(syscall.SIGTERM)
	cmd := exec.Command("/bin/sh", "-c", killAll)
	cmd.Stdin = strings.NewReader(m.WorkDir + "\n")
	return errors.Join(err, cmd.Run())
}

// Metrics returns the metrics of the running manager.
func (m *Manager) Metrics(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	url := "http://" + m.diagnostics + "/metrics"
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("reading the manager's metrics: %s", response.Status), err)
	}
	return text, nil
}

// PID returns the process ID of the running manager, or 0.
func (m *Manager) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	select {
	case <-m.exited:
		return 0
	default:
		return m.cmd.Process.Pid
	}
}
