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
	mu sync.Mutex
	// stops end the programs, by their paths.
	stops   map[string]context.CancelFunc
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
	if r.stops[args[0]] != nil {
		return nil
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating the log of %s: %w", args[0], err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if r.stops == nil {
		r.stops = map[string]context.CancelFunc{}
	}
	r.stops[args[0]] = stop
	r.running.Go(func() {
		defer log.Close()
		for sleep(ctx, restartDelay) {
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
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
	for _, stop := range r.stops {
		stop()
	}
	r.running.Wait()
}
