package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hopeless is how often a part may end by itself before Up gives up.
const hopeless = 4

// Up makes the control plane what the spec says and blocks until it is ready or
// ctx ends. It may be called again at any time: what fits already is left alone,
// another version restarts the parts and keeps data, address and certificates,
// and what a crash left behind is ended first. After an error the supervisor
// may still be trying.
func (c *Cluster) Up(ctx context.Context, spec Spec) (*Status, error) {
	wanted, err := spec.request()
	if err != nil {
		return nil, err
	}
	held, err := c.begin(ctx, true)
	if err != nil {
		return nil, err
	}
	defer held.release()
	return c.carryOut(ctx, wanted)
}

// carryOut is called by whoever holds the operation lock.
func (c *Cluster) carryOut(ctx context.Context, wanted *request) (*Status, error) {
	l := layout(c.Dir)
	var before request
	if err := readJSON(l.spec(), &before); err != nil {
		return nil, err
	}
	if before.ID != wanted.ID {
		if err := checkVersion(ctx, wanted); err != nil {
			return nil, err
		}
		if err := writeJSON(l.spec(), wanted); err != nil {
			return nil, err
		}
	}
	ended, err := c.ensureSupervisor(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, wanted, ended); err != nil {
		return nil, err
	}
	if wanted.Incarnation != "" {
		if err := writeFile(l.incarnation(), []byte(wanted.Incarnation), 0o644); err != nil {
			return nil, err
		}
	}
	return c.Status(ctx)
}

// Resume brings up again what was asked for last, with the same programs, after
// a crash or a restart of the machine. A directory in which nothing was asked
// for is left alone.
func (c *Cluster) Resume(ctx context.Context) (*Status, error) {
	held, err := c.begin(ctx, false)
	if err != nil || held == nil {
		return &Status{Directory: c.Dir}, err
	}
	defer held.release()
	var before request
	if err := readJSON(layout(c.Dir).spec(), &before); err != nil {
		return nil, err
	}
	if before.ID == "" {
		return c.Status(ctx)
	}
	return c.carryOut(ctx, &before)
}

// checkVersion refuses a version that the API server's program cannot be.
func checkVersion(ctx context.Context, wanted *request) error {
	version, err := ParseVersion(wanted.KubernetesVersion)
	if err != nil {
		return err
	}
	possible, err := versionsOf(ctx, wanted.Paths[APIServer])
	if err != nil {
		return err
	}
	if !possible.contains(version) {
		return fmt.Errorf("version %s of Kubernetes cannot be run by %s: choose one from %s to %s",
			version, wanted.Paths[APIServer], possible.lowest, possible.highest)
	}
	return nil
}

// ensureSupervisor starts a supervisor unless one lives. The channel tells how
// the started one ended; it is nil when there was one already.
func (c *Cluster) ensureSupervisor(ctx context.Context) (<-chan error, error) {
	running, err := isHeld(layout(c.Dir).supervisorLock())
	if err != nil || running && c.supervisor().alive() {
		return nil, err
	}
	alone, err := c.clear(ctx)
	if err != nil {
		return nil, err
	}
	defer alone.release()
	// What an earlier supervisor saw says nothing about the next one.
	os.Remove(layout(c.Dir).status())
	return c.startSupervisor()
}

// startSupervisor starts it in a session of its own and with nothing of ours: a
// caller that waits for the end of our output must not wait for it.
func (c *Cluster) startSupervisor() (<-chan error, error) {
	l := layout(c.Dir)
	command, err := c.supervisorCommand()
	if err != nil {
		return nil, err
	}
	path := l.log(supervisorLog)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of logs: %w", err)
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
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// await blocks until the request is carried out and the cluster can be used.
func (c *Cluster) await(ctx context.Context, wanted *request, ended <-chan error) error {
	l := layout(c.Dir)
	var first *observation
	for {
		var seen observation
		if err := readJSON(l.status(), &seen); err != nil {
			return err
		}
		if seen.ready(wanted.ID) && c.Usable(ctx) {
			return nil
		}
		if ended == nil && !c.supervisor().alive() {
			// It was about to end when it was taken for a living one.
			var err error
			if ended, err = c.ensureSupervisor(ctx); err != nil {
				return err
			}
			continue
		}
		if seen.RequestID == wanted.ID {
			if first == nil {
				first = &seen
			}
			if err := c.checkHope(first, &seen); err != nil {
				return err
			}
		}
		select {
		case err := <-ended:
			if c.supervisor().alive() {
				// One that an earlier call started was faster.
				ended = nil
				continue
			}
			return fmt.Errorf("the supervisor ended (%w): %s", exitError(err), tail(l.log(supervisorLog)))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of %s: %w%s", seen.waiting(), c.Dir, context.Cause(ctx), c.explain(&seen))
		case <-time.After(pollInterval):
		}
	}
}

// Usable tells whether the API server is ready and the namespaces exist that
// everybody takes for granted: it makes them after it is ready.
func (c *Cluster) Usable(ctx context.Context) bool {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		if c.probe(ctx, path) != nil {
			return false
		}
	}
	return true
}

// checkHope gives up on a part that ends again and again.
func (c *Cluster) checkHope(first, now *observation) error {
	for i, part := range now.Parts {
		earlier := 0
		if i < len(first.Parts) && first.Parts[i].Name == part.Name {
			earlier = first.Parts[i].Restarts
		}
		if !part.Ready && part.Restarts-earlier >= hopeless {
			return fmt.Errorf("%s ended %d times (%s): %s", part.Name, part.Restarts-earlier, part.LastExit, tail(layout(c.Dir).log(part.Name)))
		}
	}
	return nil
}

// explain quotes the log of the first part that is not ready.
func (c *Cluster) explain(seen *observation) string {
	for _, part := range seen.Parts {
		if !part.Ready {
			return fmt.Sprintf("; the log of %s ends: %s", part.Name, tail(layout(c.Dir).log(part.Name)))
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

// tail returns the end of a log.
func tail(path string) string {
	const length = 1500
	content, err := os.ReadFile(path)
	if err != nil {
		return "it has no log"
	}
	if len(content) > length {
		content = content[len(content)-length:]
		if _, rest, found := bytes.Cut(content, []byte("\n")); found {
			content = rest
		}
	}
	return strings.TrimSpace(string(content))
}
