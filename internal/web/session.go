package web

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"
)

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
