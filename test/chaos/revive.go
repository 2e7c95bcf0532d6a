package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/prometheus/procfs"
)

// revived are programs that are started again whenever they exit, as the kubelet does with the
// static pods of a control plane.
type revived struct {
	mu      sync.Mutex
	stopped func()
	ctx     context.Context //nolint:containedctx // It ends with the programs.
	names   map[string]bool
	running sync.WaitGroup
}

// kill kills a program. From the first time on, the program is started again when it has exited.
func (p *jobPlatform) kill(victim target) error {
	proc, err := procfs.NewProc(victim.pid)
	if err != nil {
		return errNoTarget
	}
	args, err := proc.CmdLine()
	if err != nil || len(args) == 0 {
		return errNoTarget
	}
	environ, err := proc.Environ()
	if err != nil {
		return errNoTarget
	}
	if err := victim.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.revived.supervise(args, environ, filepath.Join(p.base, filepath.Base(args[0])+".log"))
}

// supervise starts a program whenever it has exited, unless that is done already.
func (r *revived) supervise(args, environ []string, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[args[0]] {
		return nil
	}
	if r.names == nil {
		r.ctx, r.stopped = context.WithCancel(context.Background())
		r.names = map[string]bool{}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating the log of %s: %w", args[0], err)
	}
	r.names[args[0]] = true
	r.running.Go(func() {
		defer log.Close()
		for sleep(r.ctx, restartDelay) {
			cmd := exec.CommandContext(r.ctx, args[0], args[1:]...)
			cmd.Env, cmd.Stdout, cmd.Stderr = environ, log, log
			// It is killed again, or its port is still in use.
			_ = cmd.Run()
		}
	})
	return nil
}

// stop kills the programs.
func (r *revived) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names != nil {
		r.stopped()
		r.running.Wait()
	}
}
