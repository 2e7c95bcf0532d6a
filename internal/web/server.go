// Package web serves a page that shows the clusters, workspaces and add-ons of a
// management cluster, and runs the actions of users. It reads and writes with the
// user's own identity, so Kubernetes decides what a user sees and may change.
//
// New serves it to one user on his machine, NewCluster to the users of a management
// cluster, who log in.
package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/message"
)

const (
	apiPrefix   = "/api/"
	sessionPath = "/api/v1/session"
	// maxBody limits the body of a request.
	maxBody = 64 << 10
	// maxStates limits the requests that read states at a time.
	maxStates = 3
	// bodyTimeout is how long a client may take to send one.
	bodyTimeout = 10 * time.Second
	// pageTimeout is how long a request for the page or for a session may take.
	pageTimeout = time.Minute
)

// Options configure a server.
type Options struct {
	// Config is the configuration of the management cluster, with the user's
	// credentials.
	Config *rest.Config
	// Context is the name of the management cluster that the page shows.
	Context string
	// Namespace is watched if the user may not list the objects of all namespaces.
	Namespace string
	// OnlyNamespace limits the page to Namespace.
	OnlyNamespace bool
	// Namespaces are tried, too, if the user may not list namespaces.
	Namespaces []string
}

// Server serves the page.
type Server struct {
	access  access
	handler http.Handler
	// logs limits the logs that are open.
	logs *semaphore.Weighted
	// states limits the requests that read states.
	states *semaphore.Weighted
	// local is set if the server has one user.
	local     *local
	listeners []net.Listener
	tls       *tls.Config
	// writeTimeout is how long a client may take to read a part of a stream, and
	// bodyTimeout to send the body of a request.
	writeTimeout, bodyTimeout time.Duration
	pingInterval              time.Duration
}

// access decides who may use a server, and with which identity.
type access interface {
	// host reports whether a request is for the address of the server, and origin
	// whether it may come from an origin.
	host(r *http.Request) bool
	origin(r *http.Request, origin string) bool
	// identify returns with which identity a request is answered, or nil if it has no
	// session.
	identify(r *http.Request) *grant
	// routes adds the routes that open and close sessions.
	routes(mux *http.ServeMux)
	// stop ends all watches.
	stop()
}

// New returns a server for a user. It connects to the management cluster with the
// first stream.
func New(options Options) (*Server, error) {
	user, err := newIdentity(options)
	if err != nil {
		return nil, err
	}
	l := &local{user: user, sessions: newSessions()}
	s := newServer(l)
	s.local = l
	return s, nil
}

func newServer(a access) *Server {
	s := &Server{access: a, logs: semaphore.NewWeighted(maxLogs), states: semaphore.NewWeighted(maxStates), writeTimeout: 20 * time.Second, bodyTimeout: bodyTimeout, pingInterval: pingInterval}
	s.handler = s.secure(s.routes())
	return s
}

// routes returns the routes of the server. See types.go for what they return.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", serveAsset)
	s.access.routes(mux)
	mux.HandleFunc("GET /api/v1/stream", s.stream)
	const workspace = "/api/v1/workspaces/{namespace}/{name}/"
	mux.HandleFunc("GET "+workspace+"plan", s.plan)
	mux.HandleFunc("GET "+workspace+"log", s.log)
	mux.HandleFunc("GET "+workspace+"snapshots", s.snapshots)
	mux.HandleFunc("GET "+workspace+"lock", s.lock)
	mux.HandleFunc("GET "+workspace+"can", s.can)
	mux.HandleFunc("POST "+workspace+"{action}", s.act)
	mux.HandleFunc("POST /api/v1/addons/{namespace}/{name}/trigger", s.trigger)
	mux.HandleFunc(apiPrefix, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, Problem{Error: "There is no such request."})
	})
	return mux
}

// Listen sets the listeners of the server. They must be on the loopback interface and
// have the same port.
func (s *Server) Listen(listeners ...net.Listener) error {
	for _, listener := range listeners {
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok || !address.IP.IsLoopback() {
			return fmt.Errorf("%s is not a loopback address", listener.Addr())
		}
		s.local.port = strconv.Itoa(address.Port)
	}
	s.listeners = listeners
	return nil
}

// Serve serves requests on the listeners until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, TLSConfig: s.tls,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, len(s.listeners))
	for _, listener := range s.listeners {
		go func() {
			if s.tls == nil {
				failed <- server.Serve(listener)
				return
			}
			// Browsers open any number of streams with HTTP/2.
			failed <- server.ServeTLS(listener, "", "")
		}()
	}
	defer s.access.stop()
	select {
	case err := <-failed:
		_ = server.Close()
		return fmt.Errorf("serving the page: %w", err)
	case <-ctx.Done():
		// Streams never end by themselves.
		_ = server.Close()
		return nil
	}
}

// Link returns an address that opens the page once within the given time. Browsers
// do not send the part with the token to the server or to other pages.
func (s *Server) Link(valid time.Duration) string {
	return fmt.Sprintf("http://%s/#token=%s", net.JoinHostPort("127.0.0.1", s.local.port), s.local.sessions.newLink(valid))
}

// Opened receives a value when a link was used.
func (s *Server) Opened() <-chan struct{} { return s.local.sessions.opened }

// read reads the body of a request. It returns false after it answered the request.
func read(w http.ResponseWriter, r *http.Request, body any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(body)
	if err == nil {
		// What follows is read within the time of the body, too.
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge, found := errors.AsType[*http.MaxBytesError](err); found {
			status = http.StatusRequestEntityTooLarge
			err = tooLarge
		}
		fail(w, status, Problem{Error: "The request is not valid: " + message.OneLine(err.Error())})
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return true
}

func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// failBusy answers a request that is too many. The page tries again.
func failBusy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	fail(w, http.StatusTooManyRequests, Problem{Error: why})
}

func fail(w http.ResponseWriter, status int, problem Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem)
}
