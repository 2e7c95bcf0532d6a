package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/dial"
)

const (
	// maxUserSessions limits the sessions, which have watches.
	maxUserSessions = 50
	// maxLogins limits the logins at a time.
	maxLogins = 50
	// loginTimeout is how long the management cluster may take to accept a token.
	loginTimeout = 15 * time.Second
	// anonymous is the name of the user of a request without credentials.
	anonymous = "system:anonymous"
	// serviceAccount is the prefix of the names of service accounts.
	serviceAccount = "system:serviceaccount:"
)

var (
	errBusy    = errors.New("there are too many sessions")
	errLogins  = errors.New("there are too many logins at a time")
	errRefused = errors.New("the management cluster refuses the token")
)

// logins are the sessions of users who logged in with a token. Tokens exist only in
// memory.
type logins struct {
	options ClusterOptions
	now     func() time.Time
	// slots limits the logins at a time.
	slots *semaphore.Weighted

	mu sync.Mutex
	// sessions are by the hash of their cookie.
	sessions map[digest]*userSession
}

// userSession is the session of a browser, with its watches.
type userSession struct {
	*identity
	id digest
	// key is what the requests of the page carry.
	key string
	// user is the name of the user, and empty if he may not ask for it. owner is who has that
	// name: a user of a namespace has as many service accounts as he creates.
	user, owner string
	// ends is when the session ends at the latest, used when it was used last, and active
	// the number of requests in progress.
	ends, used time.Time
	active     int
	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
}

func newLogins(options ClusterOptions) *logins {
	return &logins{options: options, now: time.Now, slots: semaphore.NewWeighted(maxLogins), sessions: map[digest]*userSession{}}
}

// open opens a session with a token that the management cluster accepts. It returns the
// session and the value of its cookie.
func (l *logins) open(ctx context.Context, token string) (*userSession, string, error) {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, "", errRefused
	}
	if !l.slots.TryAcquire(1) {
		return nil, "", errLogins
	}
	defer l.slots.Release(1)
	cookie := rand.Text() + rand.Text()
	now := l.now()
	session := &userSession{id: hashOf(cookie), key: rand.Text() + rand.Text(), used: now, ends: now.Add(l.options.Lifetime)}
	options := Options{Config: l.options.configFor(token, func() { l.end(session) }), Context: l.options.Context, Namespace: "default", Namespaces: l.options.Namespaces}
	var err error
	if session.user, err = verify(ctx, options); err != nil {
		return nil, "", err
	}
	hash := hashOf(token)
	session.owner = cmp.Or(session.user, string(hash[:]))
	if account, found := strings.CutPrefix(session.user, serviceAccount); found {
		options.Namespace, _, _ = strings.Cut(account, ":")
		session.owner = serviceAccount + options.Namespace
	}
	if session.identity, err = newIdentity(options); err != nil {
		return nil, "", err
	}
	// A user who writes a kubeconfig must not reach what only this program can.
	session.workloads = workload.Reader{Reader: session.client, Policy: &dial.Policy{}}
	session.connector = workload.Connector{Policy: &dial.Policy{}}
	if expiry := expiryOf(token); !expiry.IsZero() && expiry.Before(session.ends) {
		session.ends = expiry
	}
	// The session outlives the request that opens it.
	session.ctx, session.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return session, cookie, l.add(session)
}

// verify returns the name of the user of a token.
func verify(ctx context.Context, options Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	user, err := newIdentity(options)
	if err != nil {
		return "", err
	}
	review := &authenticationv1.SelfSubjectReview{}
	switch err := user.client.Create(ctx, review); {
	case apierrors.IsUnauthorized(err):
		return "", errRefused
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		// The token is accepted, and the user may not ask for his name.
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the user: %w", err)
	case review.Status.UserInfo.Username == anonymous:
		return "", errRefused
	}
	return review.Status.UserInfo.Username, nil
}

// add stores a session.
func (l *logins) add(session *userSession) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sessions) >= maxUserSessions {
		victim := l.victim()
		if victim == nil {
			session.cancel()
			return errBusy
		}
		l.endLocked(victim)
	}
	l.sessions[session.id] = session
	return nil
}

// victim returns a session that makes room for another one, or nil: of an owner with several,
// used or not, so that no user can lock the others out, else one that is not in use.
func (l *logins) victim() *userSession {
	owned, most := map[string]int{}, 1
	for _, s := range l.sessions {
		owned[s.owner]++
		most = max(most, owned[s.owner])
	}
	var victim *userSession
	for _, s := range l.sessions {
		if owned[s.owner] == most && (most > 1 || s.active == 0) && (victim == nil || before(s, victim)) {
			victim = s
		}
	}
	return victim
}

// before reports whether a session ends before another one: those with a page come last, and
// those that were used last.
func before(a, b *userSession) bool {
	if inUse := b.active > 0; inUse != (a.active > 0) {
		return inUse
	}
	return a.used.Before(b.used)
}

// find returns the session of a cookie, or nil if it does not exist or has ended.
func (l *logins) find(cookie string) *userSession { return l.get(hashOf(cookie)) }

// get returns the session with an ID, or nil if it does not exist or has ended.
func (l *logins) get(id digest) *userSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	session := l.sessions[id]
	if session == nil || l.ended(session) {
		return nil
	}
	return session
}

// ended reports whether the time of a session is over, and ends it then.
func (l *logins) ended(session *userSession) bool {
	now := l.now()
	if now.Before(session.ends) && (session.active > 0 || now.Sub(session.used) <= l.options.Idle) {
		return false
	}
	l.endLocked(session)
	return true
}

// use returns the permission to answer a request of a session, or nil if that has ended. A
// page with an open stream is in use.
func (l *logins) use(session *userSession) *grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[session.id] != session {
		return nil
	}
	session.active++
	session.used = l.now()
	return &grant{user: session.identity, ctx: session.ctx, done: func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		session.active--
		session.used = l.now()
	}}
}

// end ends a session, for example because the management cluster does not accept its token any
// more.
func (l *logins) end(session *userSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(session)
}

// endLocked ends a session with its watches.
func (l *logins) endLocked(session *userSession) {
	if l.sessions[session.id] != session {
		return
	}
	delete(l.sessions, session.id)
	session.cancel()
	session.watch.stop()
}

// expire ends the sessions whose time is over.
func (l *logins) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, session := range l.sessions {
		l.ended(session)
	}
}

// stop ends all sessions.
func (l *logins) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, session := range l.sessions {
		l.endLocked(session)
	}
}

// expiryOf returns when a token expires, or zero if it does not say so. The management
// cluster checks it; the session only ends in time.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err := json.Unmarshal(content, &claims); err != nil || claims.Expiry <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}
