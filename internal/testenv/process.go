package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/host"
)

// collector makes a program collect garbage less often than by default. API servers take
// half of the CPU time of the tests, and their collectors a quarter of that.
var collector = []string{"GOGC=400", "GOMEMLIMIT=2GiB"}

// withCollector returns the path of a script that runs a program of assets with collector.
// TESTENV lets the killer find the program.
func (e *Environment) withCollector(assets, program string) (string, error) {
	script := filepath.Join(e.Dir, program)
	text := fmt.Sprintf("#!/bin/sh\nTESTENV='%s' %s exec '%s' \"$@\"\n", e.Dir, strings.Join(collector, " "), filepath.Join(assets, program))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		return "", fmt.Errorf("writing the script of %s: %w", program, err)
	}
	return script, nil
}

// startProcess starts a program that runs until the environment stops, and waits until
// healthURL returns status 200. A log file in the environment's directory contains its
// output.
func (e *Environment) startProcess(name string, cmd *exec.Cmd, healthURL string) error {
	logPath := filepath.Join(e.Dir, name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("creating the log of %s: %w", name, err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cmd.Environ(), collector...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, errors.Join(err, log.Close()))
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	e.stops = append(e.stops, func() error {
		defer log.Close()
		return stopProcess(cmd.Process, exited)
	})

	// The program's certificate is self-signed. Only its health is requested.
	insecure := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // Loopback health check.
	}
	return waitUntil(context.Background(), name, func() error {
		select {
		case err := <-exited:
			exited <- err
			return fmt.Errorf("it exited (%w): %s", err, host.LogTail(logPath, 2000))
		default:
		}
		resp, err := insecure.Get(healthURL)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("health status is %s: %s", resp.Status, host.LogTail(logPath, 2000))
		}
		return nil
	})
}

// stopProcess ends a program. One that does not exit in time is killed: how soon programs of
// others exit on a busy machine is not what is tested.
func stopProcess(p *os.Process, exited <-chan error) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d: %w", p.Pid, err)
	}
	select {
	case <-exited:
		return nil
	case <-time.After(20 * time.Second):
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing process %d: %w", p.Pid, err)
	}
	<-exited
	return nil
}
