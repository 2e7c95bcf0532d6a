package web

import (
	"context"
	"net"
	"net/http"
	"slices"
)

// local is the access of one user on his machine, by one-time links.
type local struct {
	user     *identity
	sessions *sessions
	// port is that of all listeners.
	port string
}

func (l *local) host(r *http.Request) bool {
	hosts := []string{net.JoinHostPort("127.0.0.1", l.port), net.JoinHostPort("localhost", l.port), net.JoinHostPort("::1", l.port)}
	return slices.Contains(hosts, r.Host)
}

func (l *local) origin(r *http.Request, origin string) bool { return origin == "http://"+r.Host }

func (l *local) identify(r *http.Request) *grant {
	if !l.sessions.valid(r) {
		return nil
	}
	return &grant{user: l.user, ctx: context.Background(), done: func() {}}
}

func (l *local) stop() { l.user.watch.stop() }

func (l *local) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+sessionPath, func(w http.ResponseWriter, _ *http.Request) { respond(w, Login{}) })
	mux.HandleFunc("POST "+sessionPath, l.open)
}

// open exchanges the token of a link for the key of a session.
func (l *local) open(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if !read(w, r, &body) {
		return
	}
	key, ok := l.sessions.open(body.Token)
	if !ok {
		fail(w, http.StatusUnauthorized, Problem{Error: "The link was used before or has expired: open a new link of captctl ui."})
		return
	}
	respond(w, Login{Key: key})
}
