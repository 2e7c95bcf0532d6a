package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	sessionCookie = "__Host-capt-session"
	// csrfHeader carries the key of the page. Other sites cannot set it.
	csrfHeader = "X-Capt-Csrf"
	// maxToken limits the size of a token.
	maxToken = 16 << 10
)

// ClusterOptions configure a server for the users of a management cluster.
type ClusterOptions struct {
	// Config is the address of the management cluster. Its credentials are not used.
	Config *rest.Config
	// Context is the name of the management cluster that the page shows.
	Context string
	// Origin is the address of the page in browsers, such as https://capt.example.com.
	Origin string
	// Namespaces are tried for users who may not list namespaces.
	Namespaces []string
	// Idle is the time after which an unused session ends, Lifetime that after which every
	// session ends.
	Idle, Lifetime time.Duration
	// OIDC is the identity provider whose tokens the management cluster accepts. It is
	// optional.
	OIDC *OIDC
}

// cluster is the access of the users of a management cluster, who log in with a token.
type cluster struct {
	options ClusterOptions
	address *url.URL
	logins  *logins
	oidc    *oidcLogin
}

// NewCluster returns a server for the users of a management cluster. It has no rights of
// its own: every request carries the token of its user.
func NewCluster(options ClusterOptions) (*Server, error) {
	address, err := url.Parse(options.Origin)
	if err != nil || address.Scheme != "https" || address.Host == "" || strings.Trim(address.Path, "/") != "" ||
		address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, fmt.Errorf("the origin %q is not of the form https://HOST", options.Origin)
	}
	address.Host = normalHost(address.Host)
	c := &cluster{options: options, address: address, logins: newLogins(options)}
	if options.OIDC != nil {
		c.oidc = &oidcLogin{options: *options.OIDC, redirect: "https://" + address.Host + callbackPath}
	}
	return newServer(c), nil
}

// ListenCluster sets the listener of a server for many users. Without a TLS configuration,
// a proxy must terminate TLS.
func (s *Server) ListenCluster(listener net.Listener, config *tls.Config) {
	s.listeners, s.tls = []net.Listener{listener}, config
}

func (c *cluster) host(r *http.Request) bool { return normalHost(r.Host) == c.address.Host }

// normalHost returns a host as browsers send it: in lower case, and without the port of
// HTTPS.
func normalHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ":443") }

func (c *cluster) origin(_ *http.Request, origin string) bool {
	return origin == "https://"+c.address.Host
}

// identify requires the cookie of a session and, because browsers send cookies with
// requests of other sites as well, the key of its page.
func (c *cluster) identify(r *http.Request) *grant {
	session := c.session(r)
	if session == nil || !session.hasKey(r) {
		return nil
	}
	return c.logins.use(session)
}

func (c *cluster) stop() { c.logins.stop() }

func (c *cluster) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+sessionPath, c.show)
	mux.HandleFunc("POST "+sessionPath, c.login)
	mux.HandleFunc("DELETE "+sessionPath, c.logout)
	if c.oidc != nil {
		mux.HandleFunc("GET "+loginPath, c.startOIDC)
		mux.HandleFunc("GET "+callbackPath, c.finishOIDC)
	}
}

// session returns the session of a request's cookie, or nil.
func (c *cluster) session(r *http.Request) *userSession {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	return c.logins.find(cookie.Value)
}

// hasKey reports whether a request carries the key of the page.
func (s *userSession) hasKey(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(csrfHeader)), []byte(s.key)) == 1
}

// description returns how users log in, and the session if there is one.
func (c *cluster) description(session *userSession) Login {
	login := Login{Token: true}
	if c.oidc != nil {
		login.Provider = c.oidc.options.name()
	}
	if session != nil {
		login.User, login.Key = session.user, session.key
	}
	return login
}

// show answers with the session of the browser. Pages of other sites cannot read it.
func (c *cluster) show(w http.ResponseWriter, r *http.Request) {
	respond(w, c.description(c.session(r)))
}

// login opens a session with a token.
func (c *cluster) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if !read(w, r, &body) {
		return
	}
	session, key, err := c.logins.open(r.Context(), strings.TrimSpace(body.Token))
	if err != nil {
		failLogin(w, err)
		return
	}
	c.replace(c.session(r))
	setCookie(w, key)
	respond(w, c.description(session))
}

// replace ends the session that a browser had before, which no logout would reach.
func (c *cluster) replace(previous *userSession) {
	if previous != nil {
		c.logins.end(previous)
	}
}

// failLogin answers a login that failed.
func failLogin(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, Problem{Error: "Too many users are logged in: try again in a few minutes."})
	case errors.Is(err, errLogins):
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, Problem{Error: "Many users log in at the moment: try again in a few seconds."})
	case errors.Is(err, errRefused):
		fail(w, http.StatusUnauthorized, Problem{Error: "The management cluster does not accept this token: it is not valid, or has expired."})
	default:
		fail(w, http.StatusBadGateway, Problem{Error: lostText(err)})
	}
}

// setCookie sets the cookie of a session. Only this host receives it, over TLS, and no
// script reads it.
func setCookie(w http.ResponseWriter, key string) {
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: key, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

func (c *cluster) logout(w http.ResponseWriter, r *http.Request) {
	session := c.session(r)
	if session != nil && !session.hasKey(r) {
		fail(w, http.StatusForbidden, Problem{Error: "The request does not come from the page."})
		return
	}
	if session != nil {
		c.logins.end(session)
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	respond(w, c.description(nil))
}

// configFor returns the configuration of a user.
func (o ClusterOptions) configFor(token string, rejected func()) *rest.Config {
	// Neither the identity of this program nor a file of it is ever used.
	config := rest.AnonymousClientConfig(o.Config)
	config.BearerToken = token
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return observer{next, func(response *http.Response, err error) {
			if err == nil && response.StatusCode == http.StatusUnauthorized {
				rejected()
			}
		}}
	})
	return config
}

// observer observes the answers to requests.
type observer struct {
	next    http.RoundTripper
	observe func(*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	o.observe(response, err)
	return response, err //nolint:wrapcheck // Callers match it.
}

// hashOf returns the hash of a token or key.
func hashOf(text string) digest { return sha256.Sum256([]byte(text)) }

// Expire ends sessions that are not used any more, until the context ends.
func (s *Server) Expire(ctx context.Context) {
	c, found := s.access.(*cluster)
	if !found {
		return
	}
	for ctx.Err() == nil {
		pause(ctx, time.Minute)
		c.logins.expire()
	}
}
