// Package statetest provides backends of OpenTofu and Terraform that store states and
// locks outside the management cluster: a server of the http backend, and a bucket of an
// S3 server.
package statetest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Server stores states and locks by path. It can be made to reject writes.
type Server struct {
	// URL is the address of the server.
	URL string

	mu     sync.Mutex
	states map[string][]byte
	locks  map[string][]byte
	// rejected is the status code of writes, if not zero.
	rejected int
	// expires makes the credentials expire after the next write; expired rejects all
	// requests.
	expires, expired bool
}

// NewServer returns a server that does not listen yet.
func NewServer() *Server { return &Server{states: map[string][]byte{}, locks: map[string][]byte{}} }

// New starts a server that stops at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	return NewAt(t, "127.0.0.1")
}

// NewAt starts a server at an address of this machine.
func NewAt(t testing.TB, address string) *Server {
	t.Helper()
	s := NewServer()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatalf("listening for states: %v", err)
	}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Configuration returns the arguments of the http backend for a key, which may
// contain placeholders.
func (s *Server) Configuration(key string) string {
	address := s.URL + "/" + key
	return fmt.Sprintf("address = %q\nlock_address = %q\nunlock_address = %q\nretry_max = 0\n", address, address, address)
}

// State returns the state of a key, or nil.
func (s *Server) State(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.states[key])
}

// SetState replaces the state of a key. It deletes the state if there is none.
func (s *Server) SetState(key string, state []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == nil {
		delete(s.states, key)
		return
	}
	s.states[key] = bytes.Clone(state)
}

// Lock returns the lock of a key, or nil.
func (s *Server) Lock(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.locks[key])
}

// SetLock locks a key, or returns false if it is locked.
func (s *Server) SetLock(key string, lock []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, locked := s.locks[key]; locked {
		return false
	}
	s.locks[key] = bytes.Clone(lock)
	return true
}

// Reject makes all writes of states fail with a status code, such as 403 for expired
// credentials. Zero ends it.
func (s *Server) Reject(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = code
}

// ExpireAfterWrite makes the server reject all requests after the next write of a state,
// until the returned function is called.
func (s *Server) ExpireAfterWrite() (renew func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expires, s.expired = false, false
	}
}

// ServeHTTP implements the protocol of the backend.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/")
	switch r.Method {
	case http.MethodGet:
		if state, found := s.states[key]; found {
			_, _ = w.Write(state)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	case http.MethodPost:
		if s.rejected != 0 {
			w.WriteHeader(s.rejected)
			return
		}
		s.states[key], s.expired = body, s.expires
	case http.MethodDelete:
		delete(s.states, key)
	case "LOCK":
		if held, locked := s.locks[key]; locked {
			w.WriteHeader(http.StatusLocked)
			_, _ = w.Write(held)
			return
		}
		s.locks[key] = body
	case "UNLOCK":
		delete(s.locks, key)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
