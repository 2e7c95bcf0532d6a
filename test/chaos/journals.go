package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/testenv/statetest"
)

// journals are the files with what happened to the resources of each workspace, outside
// of any state. The recorder writes to them over HTTP.
type journals struct {
	dir string
	// url is the address of the server.
	url string
	// gate refuses to create and destroy resources while the provider's credentials
	// are expired.
	gate *statetest.Gate

	mu sync.Mutex
	// receiving is held for reading while a line is received: the recorder exits before
	// the line is written.
	receiving sync.RWMutex
}

func newJournals(dir, address string) (*journals, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the journals: %w", err)
	}
	j := &journals{dir: dir}
	j.gate = &statetest.Gate{Handler: j}
	var err error
	j.url, err = serve(address, j.gate)
	return j, err
}

// serve starts a server that runs as long as this process, and returns its URL.
func serve(address string, handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// path returns the file of a workspace, which is given by its namespace and name.
func (j *journals) path(workspace string) string {
	return filepath.Join(j.dir, strings.ReplaceAll(workspace, "/", "-"))
}

// address returns the URL of the journal of a workspace.
func (j *journals) address(workspace string) string { return j.url + "/" + workspace }

// ServeHTTP appends the body of a request to the journal that its path names.
func (j *journals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.receiving.RLock()
	defer j.receiving.RUnlock()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = j.write(strings.TrimPrefix(r.URL.Path, "/"), string(body))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// write appends lines to the journal of a workspace.
func (j *journals) write(workspace, lines string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	file, err := os.OpenFile(j.path(workspace), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	if _, err := file.WriteString(lines); err != nil {
		return fmt.Errorf("writing the journal: %w", errors.Join(err, file.Close()))
	}
	return file.Close()
}

// read returns the entries of the journal of a workspace.
func (j *journals) read(workspace string) ([]entry, error) {
	j.receiving.Lock()
	j.receiving.Unlock() //nolint:staticcheck // It waits for the others.
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := os.ReadFile(j.path(workspace))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return parseJournal(string(text))
}
