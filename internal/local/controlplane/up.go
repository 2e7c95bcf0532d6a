package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

const (
	// maxExits is how often a part may exit unexpectedly before Up gives up.
	maxExits = 4
	// logLimit is how many bytes of a log an error quotes.
	logLimit = 1500
)

// Up starts or changes the control plane to match the spec, and blocks until it is
// ready or ctx ends. It is idempotent: parts that match already are not restarted. A
// new version restarts parts and keeps data, address and certificates. Processes that
// a crash left behind are stopped first. After an error the supervisor may still be
// trying.
func (c *Cluster) Up(ctx context.Context, spec Spec) (*Status, error) {
	desired, err := spec.request()
	if err != nil {
		return nil, err
	}
	held, err := c.lockOperation(ctx, true)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	return c.apply(ctx, desired)
}

// apply starts or changes the control plane. The caller holds the operation lock.
func (c *Cluster) apply(ctx context.Context, desired *request) (*Status, error) {
	l := layout(c.Dir)
	var previous request
	if err := readJSON(l.spec(), &previous); err != nil {
		return nil, err
	}
	if previous.ID != desired.ID {
		if err := checkVersion(ctx, desired); err != nil {
			return nil, err
		}
		if err := writeJSON(l.spec(), desired); err != nil {
			return nil, err
		}
	}
	exited, err := c.ensureSupervisor(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx, desired, exited); err != nil {
		return nil, err
	}
	if desired.Incarnation != "" {
		if err := host.WriteFile(l.incarnation(), []byte(desired.Incarnation), 0o644); err != nil {
			return nil, err
		}
	}
	return c.Status(ctx)
}

// Resume starts the control plane again with its latest spec and the same programs,
// after a crash or a restart of the machine. It does nothing in a directory without a
// spec.
func (c *Cluster) Resume(ctx context.Context) (*Status, error) {
	held, err := c.lockOperation(ctx, false)
	if err != nil || held == nil {
		return &Status{Directory: c.Dir}, err
	}
	defer held.Release()
	var previous request
	if err := readJSON(layout(c.Dir).spec(), &previous); err != nil {
		return nil, err
	}
	if previous.ID == "" {
		return c.Status(ctx)
	}
	return c.apply(ctx, &previous)
}

// checkVersion refuses a version that the API server program cannot emulate.
func checkVersion(ctx context.Context, desired *request) error {
	version, err := kubeversion.Parse(desired.KubernetesVersion)
	if err != nil {
		return err
	}
	supported, err := supportedVersions(ctx, desired.Paths[APIServer])
	if err != nil {
		return err
	}
	if !supported.contains(version) {
		return fmt.Errorf("%[2]s cannot run Kubernetes %[1]s: choose a version from %[3]s to %[4]s",
			version, desired.Paths[APIServer], supported.lowest, supported.highest)
	}
	return nil
}

// ensureSupervisor starts a supervisor unless one is running. The channel receives
// the exit error of the new supervisor. It is nil if one was running.
func (c *Cluster) ensureSupervisor(ctx context.Context) (<-chan error, error) {
	running, err := host.IsLocked(layout(c.Dir).supervisorLock())
	if err != nil || running && c.supervisor().alive() {
		return nil, err
	}
	exclusive, err := c.stopAll(ctx)
	if err != nil {
		return nil, err
	}
	defer exclusive.Release()
	// The status of the previous supervisor must not be taken for that of the next.
	os.Remove(layout(c.Dir).status())
	return c.startSupervisor()
}

// startSupervisor starts the supervisor in its own session without inherited files
// and variables: a caller that reads the output of this process until its end must not
// wait for the supervisor.
func (c *Cluster) startSupervisor() (<-chan error, error) {
	l := layout(c.Dir)
	command, err := c.supervisorCommand()
	if err != nil {
		return nil, err
	}
	path := l.log(supervisorLog)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the log directory: %w", err)
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()
	closeOnExec()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(environment(), supervisorEnv+"="+c.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return exited, nil
}

// waitReady blocks until the request is applied and the cluster is usable.
func (c *Cluster) waitReady(ctx context.Context, desired *request, exited <-chan error) error {
	l := layout(c.Dir)
	var first *observation
	for {
		var observed observation
		if err := readJSON(l.status(), &observed); err != nil {
			return err
		}
		if observed.ready(desired.ID) && c.Usable(ctx) {
			return nil
		}
		if exited == nil && !c.supervisor().alive() {
			// It was about to exit when it was found running.
			var err error
			if exited, err = c.ensureSupervisor(ctx); err != nil {
				return err
			}
			continue
		}
		if observed.RequestID == desired.ID {
			if first == nil {
				first = &observed
			}
			if err := c.checkExits(first, &observed); err != nil {
				return err
			}
		}
		select {
		case err := <-exited:
			if c.supervisor().alive() {
				// The supervisor of an earlier call acquired the lock first.
				exited = nil
				continue
			}
			return fmt.Errorf("the supervisor exited (%w): %s", exitError(err), host.LogTail(l.log(supervisorLog), logLimit))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of %s: %w%s", observed.waiting(), c.Dir, context.Cause(ctx), c.unreadyLog(&observed))
		case <-time.After(pollInterval):
		}
	}
}

// Usable reports whether the API server is ready and the namespaces default and
// kube-system exist, which it creates after it is ready.
func (c *Cluster) Usable(ctx context.Context) bool {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		if c.probe(ctx, path) != nil {
			return false
		}
	}
	return true
}

// checkExits returns an error if a part exits repeatedly.
func (c *Cluster) checkExits(first, current *observation) error {
	for i, part := range current.Parts {
		earlier := 0
		if i < len(first.Parts) && first.Parts[i].Name == part.Name {
			earlier = first.Parts[i].Restarts
		}
		if !part.Ready && part.Restarts-earlier >= maxExits {
			return fmt.Errorf("%s exited %d times (%s): %s", part.Name, part.Restarts-earlier, part.LastExit, host.LogTail(layout(c.Dir).log(part.Name), logLimit))
		}
	}
	return nil
}

// unreadyLog returns the end of the log of the first part that is not ready.
func (c *Cluster) unreadyLog(observed *observation) string {
	for _, part := range observed.Parts {
		if !part.Ready {
			return fmt.Sprintf("; the log of %s ends with: %s", part.Name, host.LogTail(layout(c.Dir).log(part.Name), logLimit))
		}
	}
	return ""
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
