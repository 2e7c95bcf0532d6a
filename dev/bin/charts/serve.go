package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	repo "helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"
)

// server serves a directory of packed charts.
type server struct {
	dir         string
	address     string
	addressFile string
	log         io.Writer

	filled atomic.Bool
	index  atomic.Pointer[[]byte]
}

// run serves until ctx is cancelled. It answers /healthz with 200 once all charts are
// served.
func (s *server) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	address := listener.Addr().String()
	web := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() { _ = web.Close() }()

	charts, err := s.fill(address)
	if err != nil {
		return err
	}
	if err := s.writeAddress(address); err != nil {
		return err
	}
	fmt.Fprintf(s.log, "charts: %d charts at http://%s and oci://%s/charts\n", charts, address, address)

	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := web.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v2/", ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.filled.Load() {
			http.Error(w, "the charts are being read", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		index := s.index.Load()
		if index == nil {
			http.Error(w, "the charts are being read", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(*index)
	})
	mux.Handle("/", http.FileServer(http.Dir(s.dir)))
	return mux
}

// fill creates the index of the Helm repository, and pushes all charts to the registry
// with Helm's client.
func (s *server) fill(address string) (int, error) {
	archives, err := filepath.Glob(filepath.Join(s.dir, "*.tgz"))
	if err != nil {
		return 0, fmt.Errorf("reading the charts: %w", err)
	}
	if len(archives) == 0 {
		return 0, fmt.Errorf("no charts in %s: create them with charts pack --out %s", s.dir, s.dir)
	}
	index, err := repo.IndexDirectory(s.dir, "")
	if err != nil {
		return 0, fmt.Errorf("indexing the charts: %w", err)
	}
	index.SortEntries()
	text, err := yaml.Marshal(index)
	if err != nil {
		return 0, fmt.Errorf("writing the index: %w", err)
	}
	client, err := helmregistry.NewClient(
		helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard),
		// The file does not exist, so no credentials are sent.
		helmregistry.ClientOptCredentialsFile(filepath.Join(s.dir, ".no-credentials")),
	)
	if err != nil {
		return 0, fmt.Errorf("creating a registry client: %w", err)
	}
	for _, path := range archives {
		if _, err := push(client, path, address); err != nil {
			return 0, fmt.Errorf("pushing %s: %w", filepath.Base(path), err)
		}
	}
	s.index.Store(&text)
	s.filled.Store(true)
	return len(archives), nil
}

// reference returns the name of a packed chart in a registry.
func reference(path, address string) (string, error) {
	c, err := loader.LoadFile(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/charts/%s:%s", address, c.Name(), c.Metadata.Version), nil
}

// push pushes a packed chart and returns its digest.
func push(client *helmregistry.Client, path, address string) (string, error) {
	ref, err := reference(path, address)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	result, err := client.Push(data, ref, helmregistry.PushOptCreationTime(epoch.Format(time.RFC3339)))
	if err != nil {
		return "", err
	}
	return result.Manifest.Digest, nil
}

// writeAddress writes the address to the file atomically.
func (s *server) writeAddress(address string) error {
	if s.addressFile == "" {
		return nil
	}
	partial := s.addressFile + ".partial"
	if err := os.WriteFile(partial, []byte(address), 0o644); err != nil {
		return fmt.Errorf("writing the address: %w", err)
	}
	if err := os.Rename(partial, s.addressFile); err != nil {
		return fmt.Errorf("writing the address: %w", err)
	}
	return nil
}
