package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/klog/v2"
)

const (
	loginPath    = "/login/oidc"
	callbackPath = "/login/callback"
	// loginCookie binds a login to the browser that started it. The identity provider
	// leads back from another site, so its policy cannot be as strict as that of a session.
	loginCookie = "__Host-capt-login"
	// pendingTime is how long a login may take, and maxPending the number of logins at a
	// time.
	pendingTime = 10 * time.Minute
	maxPending  = 1000
)

// OIDC is an identity provider. The management cluster must accept its ID tokens for the
// client: they are the tokens of requests.
type OIDC struct {
	Issuer, ClientID string
	// ClientSecret is empty for a public client, which PKCE protects.
	ClientSecret string
	// Scopes are requested besides openid.
	Scopes []string
	// Name is what the page calls the provider.
	Name string
	// Client sends requests to the provider. It defaults to http.DefaultClient.
	Client *http.Client
}

func (o OIDC) name() string { return cmp.Or(o.Name, o.Issuer) }

// oidcLogin logs users in by the authorization code flow with PKCE.
type oidcLogin struct {
	options  OIDC
	redirect string
	now      func() time.Time

	mu       sync.Mutex
	provider *oidc.Provider
	// pending are the logins that were started, by the hash of their state.
	pending map[digest]pendingLogin
}

// pendingLogin is a login that the identity provider has not finished.
type pendingLogin struct {
	// browser is the hash of the cookie of the browser that started it.
	browser         digest
	verifier, nonce string
	// to is the page that is opened after it.
	to      string
	expires time.Time
}

func newOIDCLogin(options OIDC, redirect string) *oidcLogin {
	return &oidcLogin{options: options, redirect: redirect, now: time.Now, pending: map[digest]pendingLogin{}}
}

// context returns a context with the client for the provider.
func (o *oidcLogin) context(ctx context.Context) context.Context {
	if o.options.Client == nil {
		return ctx
	}
	return oidc.ClientContext(ctx, o.options.Client)
}

// discover reads the configuration of the provider, once.
func (o *oidcLogin) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		limited, cancel := context.WithTimeout(ctx, loginTimeout)
		defer cancel()
		provider, err := oidc.NewProvider(o.context(limited), o.options.Issuer)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", o.options.Issuer, err)
		}
		o.provider = provider
	}
	return o.provider, nil
}

func (o *oidcLogin) config(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.options.ClientID, ClientSecret: o.options.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: o.redirect, Scopes: append([]string{oidc.ScopeOpenID}, o.options.Scopes...),
	}
}

// begin records a login and returns the address at the provider.
func (o *oidcLogin) begin(ctx context.Context, browser, to string) (string, error) {
	provider, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	state := rand.Text()
	login := pendingLogin{browser: hashOf(browser), verifier: oauth2.GenerateVerifier(), nonce: rand.Text(), to: localPath(to), expires: o.now().Add(pendingTime)}
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, p := range o.pending {
		if o.now().After(p.expires) {
			delete(o.pending, id)
		}
	}
	if len(o.pending) >= maxPending {
		return "", errBusy
	}
	o.pending[hashOf(state)] = login
	return o.config(provider).AuthCodeURL(state, oidc.Nonce(login.nonce), oauth2.S256ChallengeOption(login.verifier)), nil
}

// take returns the login of a state, which works once and in the browser that started it.
func (o *oidcLogin) take(state, browser string) (pendingLogin, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	login, found := o.pending[hashOf(state)]
	delete(o.pending, hashOf(state))
	if !found || o.now().After(login.expires) || login.browser != hashOf(browser) {
		return pendingLogin{}, errors.New("the login has expired, or was started elsewhere")
	}
	return login, nil
}

// token exchanges a code for the ID token of the user.
func (o *oidcLogin) token(ctx context.Context, login pendingLogin, code string) (string, error) {
	provider, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(o.context(ctx), loginTimeout)
	defer cancel()
	answer, err := o.config(provider).Exchange(ctx, code, oauth2.VerifierOption(login.verifier))
	if err != nil {
		return "", fmt.Errorf("exchanging the code: %w", err)
	}
	raw, found := answer.Extra("id_token").(string)
	if !found {
		return "", errors.New("the identity provider sent no ID token")
	}
	verified, err := provider.Verifier(&oidc.Config{ClientID: o.options.ClientID}).Verify(ctx, raw)
	if err != nil {
		return "", fmt.Errorf("checking the ID token: %w", err)
	}
	if verified.Nonce != login.nonce {
		return "", errors.New("the ID token belongs to another login")
	}
	return raw, nil
}

// localPath returns a path of the page, and the first page for everything else.
func localPath(to string) string {
	address, err := url.Parse(to)
	if err != nil || address.Scheme != "" || address.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") ||
		strings.ContainsAny(to, "\\\r\n\t") || strings.HasPrefix(to, "/login/") || strings.HasPrefix(to, apiPrefix) {
		return "/"
	}
	return address.RequestURI()
}

func setLoginCookie(w http.ResponseWriter, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: value, Path: "/", MaxAge: int(age.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// startOIDC leads a browser to the identity provider.
func (c *cluster) startOIDC(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	browser := rand.Text()
	address, err := c.oidc.begin(r.Context(), browser, r.URL.Query().Get("to"))
	if err != nil {
		loginFailed(w, r, err)
		return
	}
	setLoginCookie(w, browser, pendingTime)
	http.Redirect(w, r, address, http.StatusFound)
}

// finishOIDC opens a session for the user whom the identity provider leads back.
func (c *cluster) finishOIDC(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		loginFailed(w, r, err)
		return
	}
	setLoginCookie(w, "", -time.Second)
	query := r.URL.Query()
	login, err := c.oidc.take(query.Get("state"), cookie.Value)
	if err == nil && query.Get("error") != "" {
		err = fmt.Errorf("the identity provider refused the login: %s", query.Get("error"))
	}
	var token string
	if err == nil {
		token, err = c.oidc.token(r.Context(), login, query.Get("code"))
	}
	var key string
	if err == nil {
		_, key, err = c.logins.open(r.Context(), token)
	}
	if err != nil {
		loginFailed(w, r, err)
		return
	}
	setCookie(w, key)
	http.Redirect(w, r, login.to, http.StatusFound)
}

// loginFailed opens the page, which asks again. The cause is for administrators.
func loginFailed(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).Info("Login failed", "cause", err.Error())
	reason := "failed"
	if errors.Is(err, errRefused) {
		reason = "refused"
	}
	http.Redirect(w, r, "/#login="+reason, http.StatusFound)
}
