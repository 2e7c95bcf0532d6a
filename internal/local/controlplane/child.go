package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// The delay before a restart grows from minDelay to maxDelay. It is reset after
	// the program has run for stableAfter.
	minDelay    = 100 * time.Millisecond
	maxDelay    = 5 * time.Second
	stableAfter = 20 * time.Second
	// childGrace is how long a program may take to exit before it is killed. The API
	// server gets less time: it waits for its watches to end and has no data to
	// lose.
	childGrace     = 5 * time.Second
	apiServerGrace = 2 * time.Second
	// maxLogSize is the size of a log that is rotated at the next start.
	maxLogSize = 8 << 20
)

// child runs a program and restarts it when it exits.
type child struct {
	program Program
	// hash changes when the program must be restarted.
	hash   string
	parent *supervisor
	// status is guarded by the parent's mutex.
	status PartStatus

	stopping, stopped chan struct{}
}

func newChild(parent *supervisor, program Program, hash string) *child {
	return &child{
		program: program, hash: hash, parent: parent, status: PartStatus{Name: program.Name},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// stop stops the program and blocks until it has exited. It may be called only once.
func (c *child) stop() {
	began := time.Now()
	close(c.stopping)
	<-c.stopped
	c.parent.log.Info("Stopped", "program", c.program.Name, "after", time.Since(began).Round(time.Millisecond))
}

// run runs the program, and restarts it whenever it exits, until it is stopped.
func (c *child) run(ctx context.Context) {
	defer close(c.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-c.stopping
		cancel()
	}()
	for delay := minDelay; ; delay = min(2*delay, maxDelay) {
		if !c.waitForNeeds(ctx) {
			return
		}
		began := time.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		c.parent.log.Warn("Exited unexpectedly", "program", c.program.Name, "error", err)
		c.parent.update(c, func(status *PartStatus) {
			status.Restarts++
			status.LastExit = err.Error()
		})
		if time.Since(began) > stableAfter {
			delay = minDelay
		}
		if !sleep(ctx, delay) {
			return
		}
	}
}

// waitForNeeds blocks until the program may start, and reports false if ctx ends
// before.
func (c *child) waitForNeeds(ctx context.Context) bool {
	if !poll(ctx, pollInterval, func() bool { return c.parent.ready(c.program.After) }) {
		return false
	}
	for _, path := range c.program.Needs {
		exists := poll(ctx, checkInterval, func() bool {
			if get(ctx, c.parent.client, c.parent.url(path)) == nil {
				return true
			}
			c.parent.update(c, func(status *PartStatus) { status.Waiting = path })
			return false
		})
		if !exists {
			return false
		}
	}
	c.parent.update(c, func(status *PartStatus) { status.Waiting = "" })
	return true
}

// runOnce runs the program until it exits or ctx ends. The error is never nil and
// describes the exit.
func (c *child) runOnce(ctx context.Context) error {
	log, err := c.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	path := c.program.Path
	if !filepath.IsAbs(path) {
		if path, err = c.parent.find(path); err != nil {
			return err
		}
	}
	cmd := exec.Command(path, c.program.Args...)
	cmd.Dir = "/"
	cmd.Env = append(environment(), "HOME="+string(c.parent.layout))
	cmd.Env = append(cmd.Env, c.program.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if c.holdsLock() {
		cmd.ExtraFiles = []*os.File{c.parent.lock.File}
	}
	if err := c.parent.startCommand(cmd); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	// The PID cannot be reused before Wait is called.
	started, _ := processStarted(cmd.Process.Pid)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	c.parent.update(c, func(status *PartStatus) {
		status.Process = Process{PID: cmd.Process.Pid, Started: started}
		status.Running, status.Since = true, time.Now().UTC()
	})
	probing, stopProbing := context.WithCancel(ctx)
	defer stopProbing()
	go c.probe(probing)

	select {
	case err = <-exited:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-exited:
		case <-time.After(c.grace()):
			c.parent.log.Warn("Killing after the grace period", "program", c.program.Name)
			_ = cmd.Process.Kill()
			err = <-exited
		}
	}
	stopProbing()
	c.parent.update(c, func(status *PartStatus) { status.Running, status.Ready = false, false })
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// probe records that the program is ready when it is.
func (c *child) probe(ctx context.Context) {
	ready := poll(ctx, pollInterval, func() bool {
		return c.program.ReadyURL == "" || get(ctx, c.parent.client, c.program.ReadyURL) == nil
	})
	if !ready {
		return
	}
	c.parent.update(c, func(status *PartStatus) { status.Ready = ctx.Err() == nil })
}

func (c *child) grace() time.Duration {
	switch {
	case c.parent.killAtOnce.Load():
		return 0
	case c.program.Name == APIServer:
		return apiServerGrace
	default:
		return childGrace
	}
}

// holdsLock reports whether the program inherits the supervisor's lock. Programs that
// start processes do not, because those processes might outlive them with the lock.
func (c *child) holdsLock() bool {
	return slices.Contains([]string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}, c.program.Name) || isWorkload(c.program.Name)
}

// openLog opens the log, and rotates it first if it is large.
func (c *child) openLog() (*os.File, error) {
	path := c.parent.layout.log(c.program.Name)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("rotating a log: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return log, nil
}

// environment returns the variables that every process inherits. It leaves out all
// others of the caller, such as credentials.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
