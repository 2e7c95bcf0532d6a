package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
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

// sessionIdle is the time after which an unused session ends.
const sessionIdle = 12 * time.Hour

// digest is the hash of a token or key: the server does not keep the secrets
// themselves.
type digest [sha256.Size]byte

// sessions are the one-time links and the sessions that were opened with them.
type sessions struct {
	now func() time.Time
	// opened receives a value when a session was opened.
	opened chan struct{}

	mu sync.Mutex
	// links are the expiry times of links, active the times at which sessions were
	// last used.
	links, active map[digest]time.Time
}

func newSessions() *sessions {
	return &sessions{now: time.Now, opened: make(chan struct{}, 1), links: map[digest]time.Time{}, active: map[digest]time.Time{}}
}

// newLink returns a token that opens one session within the given time.
func (s *sessions) newLink(valid time.Duration) string {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for link, expiry := range s.links {
		if s.now().After(expiry) {
			delete(s.links, link)
		}
	}
	s.links[sha256.Sum256([]byte(token))] = s.now().Add(valid)
	return token
}

// open exchanges the token of a link for the key of a new session. A token works
// once.
func (s *sessions) open(token string) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	link := digest(sha256.Sum256([]byte(token)))
	expiry, found := s.links[link]
	delete(s.links, link)
	if !found || s.now().After(expiry) {
		return "", false
	}
	key = rand.Text() + rand.Text()
	s.active[sha256.Sum256([]byte(key))] = s.now()
	select {
	case s.opened <- struct{}{}:
	default:
	}
	return key, true
}

// valid reports whether a request has the key of a session.
func (s *sessions) valid(r *http.Request) bool {
	key, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found || key == "" {
		return false
	}
	session := digest(sha256.Sum256([]byte(key)))
	s.mu.Lock()
	defer s.mu.Unlock()
	used, found := s.active[session]
	if !found {
		return false
	}
	if s.now().Sub(used) > sessionIdle {
		delete(s.active, session)
		return false
	}
	s.active[session] = s.now()
	return true
}
