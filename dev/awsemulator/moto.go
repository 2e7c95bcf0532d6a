package main

import (
	"context"
	_ "embed" // For the requirements.
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/appthrust/capt/dev/python"
)

// requirements are moto, in the version that the tests of the modules are written for, and
// everything it needs, each file pinned by its hash.
//
//go:embed requirements.txt
var requirements string

// installMoto installs moto into the cache of this user and returns the path of the server.
func installMoto(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir, err := python.Install(ctx, filepath.Join(cache, "capt", "moto"), "moto", requirements)
	return filepath.Join(dir, "bin", "moto_server"), err
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

// callMoto calls a service of moto in a region. A rejection becomes an error of EKS with
// the service's message.
func callMoto(ctx context.Context, moto, service, region, kind, target, body string, read func(text []byte) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, moto+"/", strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("calling %s: %w", service, err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=eks/20260101/"+region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=none")
	if target != "" {
		request.Header.Set("X-Amz-Target", target)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("calling %s: %w", service, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the response of %s: %w", service, err)
	}
	if response.StatusCode != http.StatusOK {
		return invalid("%s rejected the request: %s", service, text)
	}
	if err := read(text); err != nil {
		return fmt.Errorf("reading the response of %s: %w", service, err)
	}
	return nil
}
