// Package web serves a page that shows the clusters, workspaces and add-ons of a
// management cluster, and runs the actions of users. It reads and writes with the
// user's own identity, so Kubernetes decides what a user sees and may change.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/message"
)

const (
	apiPrefix   = "/api/"
	sessionPath = "/api/v1/session"
	// maxBody limits the body of a request.
	maxBody = 64 << 10
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
}

// Server serves the page to one user.
type Server struct {
	options  Options
	client   client.WithWatch
	sessions *sessions
	watch    *watch
	handler  http.Handler
	// listeners have the same port.
	listeners []net.Listener
	port      string
	// writeTimeout is how long a client may take to read a part of a stream.
	writeTimeout time.Duration
}

// New returns a server for a user. It connects to the management cluster with the
// first stream.
func New(options Options) (*Server, error) {
	c, err := client.NewWithWatch(options.Config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	s := &Server{options: options, client: c, sessions: newSessions(), writeTimeout: 20 * time.Second}
	s.watch = newWatch(options, c)
	s.handler = s.secure(s.routes())
	return s, nil
}

// routes returns the routes of the server. See types.go for what they return.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", serveAsset)
	mux.HandleFunc("POST "+sessionPath, s.openSession)
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
		s.port = strconv.Itoa(address.Port)
	}
	s.listeners = listeners
	return nil
}

// Serve serves requests on the listeners until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, len(s.listeners))
	for _, listener := range s.listeners {
		go func() { failed <- server.Serve(listener) }()
	}
	defer s.watch.stop()
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

// hosts returns the values of the Host header that are accepted.
func (s *Server) hosts() []string {
	return []string{net.JoinHostPort("127.0.0.1", s.port), net.JoinHostPort("localhost", s.port), net.JoinHostPort("::1", s.port)}
}

// Link returns an address that opens the page once within the given time. Browsers
// do not send the part with the token to the server or to other pages.
func (s *Server) Link(valid time.Duration) string {
	return fmt.Sprintf("http://%s/#token=%s", net.JoinHostPort("127.0.0.1", s.port), s.sessions.newLink(valid))
}

func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if !read(w, r, &body) {
		return
	}
	key, ok := s.sessions.open(body.Token)
	if !ok {
		fail(w, http.StatusUnauthorized, Problem{Error: "The link was used before or has expired: open a new link of captctl ui."})
		return
	}
	respond(w, map[string]string{"key": key})
}

// read reads the body of a request. It returns false after it answered the request.
func read(w http.ResponseWriter, r *http.Request, body any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		status := http.StatusBadRequest
		if tooLarge, found := errors.AsType[*http.MaxBytesError](err); found {
			status = http.StatusRequestEntityTooLarge
			err = tooLarge
		}
		fail(w, status, Problem{Error: "The request is not valid: " + message.OneLine(err.Error())})
		return false
	}
	return true
}

func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, status int, problem Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem)
}
