package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

// workspaceController is the controller whose reconciles are counted.
const workspaceController = "workspacetemplateapply"

// managerProcess is a running manager.
type managerProcess struct {
	cmd     *exec.Cmd
	started time.Time
	done    chan struct{}
	log     string
	// diagnostics serves metrics and, with a token, profiles.
	diagnostics string
	token       string
	profiles    string
	http        *http.Client
}

// processExecutor are the manager's flags for runs as processes.
func (h *harness) processExecutor() []string {
	return []string{
		"--executor=process", "--terraform-binary=" + h.tofu, "--work-dir=" + h.work,
		// By default one slot is left to other namespaces, of which there are none.
		fmt.Sprintf("--max-runs=%d", parallelism), fmt.Sprintf("--max-runs-per-namespace=%d", parallelism),
	}
}

// startManager starts the manager for all namespaces, with flags for its executor.
func (h *harness) startManager(ctx context.Context, o options, executor []string) (*managerProcess, error) {
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	address, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	m := &managerProcess{
		done: make(chan struct{}), log: filepath.Join(h.env.Dir, "manager.log"), diagnostics: "http://" + address, profiles: o.profiles,
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // The manager's own certificate, on loopback.
		}},
	}
	args := append([]string{"--webhook-port=0", "--health-addr=0", "--diagnostics-address=" + address}, executor...)
	if o.profiles == "" {
		args = append(args, "--insecure-diagnostics")
	} else {
		// Profiles require authorization.
		m.diagnostics = "https://" + address
		if m.token, err = h.administrator(ctx); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the manager's log: %w", err)
	}
	m.cmd = exec.Command(filepath.Join(root, "bin", "manager"), args...)
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+h.env.Kubeconfig)
	m.cmd.Env = append(m.cmd.Env, h.managerEnv...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.started = time.Now()
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the manager (run `make build` first): %w", errors.Join(err, log.Close()))
	}
	go func() {
		_ = m.cmd.Wait()
		_ = log.Close()
		close(m.done)
	}()
	return m, nil
}

// stop stops the manager and waits until it has exited.
func (m *managerProcess) stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(time.Minute):
		logf("the manager did not exit; killing it")
		_ = m.cmd.Process.Kill()
	}
}

// administrator returns the token of a service account with cluster-admin.
func (h *harness) administrator(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "bench"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: meta.Namespace, Name: meta.Name}},
	}
	for _, obj := range []client.Object{account, binding} {
		if err := client.IgnoreAlreadyExists(h.client.Create(ctx, obj)); err != nil {
			return "", fmt.Errorf("creating the administrator: %w", err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := h.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("requesting a token: %w", err)
	}
	return request.Status.Token, nil
}

// get reads a path of the diagnostics endpoint.
func (m *managerProcess) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.diagnostics+path, nil)
	if err != nil {
		return nil, err
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// reconciles returns the number of reconciles of workspaces since the manager started.
func (m *managerProcess) reconciles(ctx context.Context) (int, error) {
	n, _, err := m.activity(ctx)
	return n, err
}

// activity returns the number of reconciles of workspaces so far, and the number of
// objects of any kind that are being reconciled or queued.
func (m *managerProcess) activity(ctx context.Context) (reconciles, busy int, err error) {
	text, err := m.get(ctx, "/metrics")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	samples, err := parseMetrics(text)
	for _, s := range samples {
		switch s.Metric[model.MetricNameLabel] {
		case "controller_runtime_reconcile_total":
			if s.Metric["controller"] == workspaceController {
				reconciles += int(s.Value)
			}
		case "workqueue_depth", "controller_runtime_active_workers":
			busy += int(s.Value)
		}
	}
	return reconciles, busy, err
}

// waitSettled waits until at least the given number of reconciles of workspaces are
// done and the queue has been empty for a short period. It returns the start of that
// period.
func (m *managerProcess) waitSettled(ctx context.Context, reconciles int) (time.Time, error) {
	const calm = 500 * time.Millisecond
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return since, fmt.Errorf("waiting for the manager to settle: %w", ctx.Err())
		case <-m.done:
			text, _ := os.ReadFile(m.log)
			return since, fmt.Errorf("the manager exited:\n%s", text[max(0, len(text)-4000):])
		case <-time.After(100 * time.Millisecond):
		}
		seen, busy, err := m.activity(ctx)
		switch {
		case err != nil || busy > 0 || seen < reconciles:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= calm:
			return since, nil
		}
	}
}

// profile saves profiles and the log of the manager, if a directory for them is set.
func (m *managerProcess) profile(ctx context.Context, name string) error {
	if m.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(m.profiles, 0o755); err != nil {
		return fmt.Errorf("creating the directory of profiles: %w", err)
	}
	log, err := os.ReadFile(m.log)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.profiles, name+".log"), log, 0o644)
	}
	if err != nil {
		return fmt.Errorf("saving the manager's log: %w", err)
	}
	for _, kind := range []string{"allocs", "heap?gc=1", "goroutine"} {
		text, err := m.get(ctx, "/debug/pprof/"+kind)
		if err != nil {
			return fmt.Errorf("reading a profile: %w", err)
		}
		file := filepath.Join(m.profiles, name+"-"+kind[:min(len(kind), 4)]+".pprof")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("writing a profile: %w", err)
		}
	}
	return nil
}
