package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// motoVersion is the version that the tests of the modules are written for.
const motoVersion = "5.2.5"

// lockFile locks a file and waits while another process holds the lock.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// installMoto creates a virtual environment with moto if it does not exist, and returns
// the path of the server. An incomplete environment is replaced.
func installMoto(ctx context.Context, cache string) (string, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return "", fmt.Errorf("resolving the cache directory: %w", err)
	}
	dir := filepath.Join(cache, "moto-"+motoVersion)
	program, done := filepath.Join(dir, "bin", "moto_server"), filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return program, nil
	}
	unlock, err := lockFile(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(done); err == nil {
		// Another process has installed it meanwhile.
		return program, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("removing an incomplete environment: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache directory: %w", err)
	}
	fmt.Fprintln(os.Stderr, "awsemulator: installing moto", motoVersion, "in", dir)
	for _, command := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "moto[server]==" + motoVersion},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("installing moto (requires Python 3 with venv, and access to PyPI): %s: %w\n%s", command[0], err, out)
		}
	}
	return program, os.WriteFile(done, nil, 0o644)
}

// motoServer is a running server of moto.
type motoServer struct {
	address string
	// exited receives the exit error of the server.
	exited  chan error
	process *os.Process
}

// startMoto starts the server and waits until it responds.
func startMoto(ctx context.Context, program string, log *os.File) (*motoServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", port)
	cmd.Stdout, cmd.Stderr = log, log
	// By default moto does not load IAM's managed policies.
	cmd.Env = append(os.Environ(), "MOTO_IAM_LOAD_MANAGED_POLICIES=true")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	moto := &motoServer{address: "http://127.0.0.1:" + port, exited: make(chan error, 1), process: cmd.Process}
	go func() { moto.exited <- cmd.Wait() }()
	if err := moto.wait(ctx); err != nil {
		moto.stop()
		return nil, err
	}
	return moto, nil
}

func (m *motoServer) stop() { _ = m.process.Kill() }

func (m *motoServer) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.address+"/moto-api/data.json", http.NoBody)
		if err != nil {
			return fmt.Errorf("calling moto: %w", err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("moto does not respond: see its output with -log FILE")
		case err := <-m.exited:
			return fmt.Errorf("moto exited, see its output with -log FILE: %w", err)
		case <-tick.C:
		}
	}
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
