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
	// The pause before a program that ended is started again grows from the
	// first to the longest, and starts over once it has lived for a while.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	steadyAfter  = 20 * time.Second
	// childGrace is how long a program may take to end before it is killed. The
	// API server has less: it waits for clients that watch, and keeps nothing
	// that could be lost.
	childGrace     = 5 * time.Second
	apiServerGrace = 2 * time.Second
	// largeLog is the size from which a log is put aside at the next start.
	largeLog = 8 << 20
)

// child keeps one program alive.
type child struct {
	program Program
	// mark changes when the program must be started anew.
	mark   string
	parent *supervisor
	// status is guarded by the parent.
	status PartStatus

	stopping, stopped chan struct{}
}

func newChild(parent *supervisor, program Program, mark string) *child {
	return &child{
		program: program, mark: mark, parent: parent, status: PartStatus{Name: program.Name},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// stop ends the program and blocks until it is gone. It is called once.
func (c *child) stop() {
	began := time.Now()
	close(c.stopping)
	<-c.stopped
	c.parent.log.Info("Stopped", "program", c.program.Name, "after", time.Since(began).Round(time.Millisecond))
}

// keep runs the program again and again until it is stopped.
func (c *child) keep(ctx context.Context) {
	defer close(c.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-c.stopping
		cancel()
	}()
	for delay := firstPause; ; delay = min(2*delay, longestPause) {
		if !c.await(ctx) {
			return
		}
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		c.parent.log.Warn("Ended by itself", "program", c.program.Name, "how", err)
		c.parent.update(c, func(status *PartStatus) {
			status.Restarts++
			status.LastExit = err.Error()
		})
		if time.Since(began) > steadyAfter {
			delay = firstPause
		}
		if !pause(ctx, delay) {
			return
		}
	}
}

// await blocks until the program may start, and reports false when ctx ended
// meanwhile.
func (c *child) await(ctx context.Context) bool {
	for !c.parent.ready(c.program.After) {
		if !pause(ctx, pollInterval) {
			return false
		}
	}
	for _, path := range c.program.Needs {
		for get(ctx, c.parent.client, c.parent.url(path)) != nil {
			c.parent.update(c, func(status *PartStatus) { status.Waiting = path })
			if !pause(ctx, lookInterval) {
				return false
			}
		}
	}
	c.parent.update(c, func(status *PartStatus) { status.Waiting = "" })
	return true
}

// once runs the program until it ends or ctx does; the error says how it ended.
func (c *child) once(ctx context.Context) error {
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
		cmd.ExtraFiles = []*os.File{c.parent.lock.file}
	}
	if err := c.parent.startCommand(cmd); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	// It has not been waited for, so the pid is its own.
	started, _ := processStarted(cmd.Process.Pid)
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
			c.parent.log.Warn("Does not end and is killed", "program", c.program.Name)
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

// probe waits until the program is ready.
func (c *child) probe(ctx context.Context) {
	for c.program.ReadyURL != "" && get(ctx, c.parent.client, c.program.ReadyURL) != nil {
		if !pause(ctx, pollInterval) {
			return
		}
	}
	c.parent.update(c, func(status *PartStatus) { status.Ready = ctx.Err() == nil })
}

func (c *child) grace() time.Duration {
	switch {
	case c.parent.hurry.Load():
		return 0
	case c.program.Name == APIServer:
		return apiServerGrace
	default:
		return childGrace
	}
}

// holdsLock is for the parts that start no processes: what they would hand the
// lock on to might outlive them.
func (c *child) holdsLock() bool {
	return slices.Contains([]string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}, c.program.Name) || isWorkload(c.program.Name)
}

// openLog puts a large log of earlier starts aside.
func (c *child) openLog() (*os.File, error) {
	path := c.parent.layout.log(c.program.Name)
	if info, err := os.Stat(path); err == nil && info.Size() > largeLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("putting a log aside: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return log, nil
}

// environment is what every process gets: nothing of what whoever asked for the
// control plane has in its own, such as credentials.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
