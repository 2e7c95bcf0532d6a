package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// journals are the files with what happened to the resources of each workspace, outside
// of any state. The recorder sends its lines over TCP, because pods have their own file
// system.
type journals struct {
	dir      string
	listener net.Listener
	// expirations is more than 0 while the provider's credentials are expired.
	expirations atomic.Int32

	mu sync.Mutex
}

func newJournals(dir, address string) (*journals, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the journals: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	j := &journals{dir: dir, listener: listener}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go j.receive(connection)
		}
	}()
	return j, nil
}

// receive writes the line of a recorder to its journal.
func (j *journals) receive(connection net.Conn) {
	defer connection.Close()
	if j.expirations.Load() > 0 {
		_, _ = connection.Write([]byte("ExpiredToken: the token of the provider has expired\n"))
		return
	}
	if _, err := connection.Write([]byte("ok\n")); err != nil {
		return
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	workspace, entry, found := strings.Cut(line, " ")
	if err != nil || !found {
		// The recorder was killed.
		return
	}
	if err := j.write(workspace, entry); err != nil {
		logf("The journal of %s is incomplete: %v", workspace, err)
	}
}

// expire makes the journals refuse to create and destroy resources until the returned
// function is called.
func (j *journals) expire() (renew func()) {
	j.expirations.Add(1)
	return func() { j.expirations.Add(-1) }
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

// address returns the address of the journal of a workspace.
func (j *journals) address(workspace string) string {
	return j.listener.Addr().String() + "/" + workspace
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
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := os.ReadFile(j.path(workspace))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return parseJournal(string(text))
}
