package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
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
	// pendingTime is how long a login may take.
	pendingTime = 10 * time.Minute
	// maxTarget limits the path of the page that is opened after a login. It is part of the
	// cookie.
	maxTarget = 1 << 10
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
	provider atomic.Pointer[oidc.Provider]
}

// pendingLogin is a login that the identity provider has not finished. It is in a cookie of the
// browser that started it: without memory here, no client can fill it.
type pendingLogin struct {
	State, Verifier, Nonce string
	// To is the page that is opened after it.
	To string
	// Previous is the session that the browser had, if any. Browsers do not send its cookie
	// when the provider leads back.
	Previous digest
}

// context returns a context with the client for the provider.
func (o *oidcLogin) context(ctx context.Context) context.Context {
	if o.options.Client == nil {
		return ctx
	}
	return oidc.ClientContext(ctx, o.options.Client)
}

// discover reads the configuration of the provider until that has worked once.
func (o *oidcLogin) discover(ctx context.Context) (*oidc.Provider, error) {
	if provider := o.provider.Load(); provider != nil {
		return provider, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(o.context(ctx), o.options.Issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", o.options.Issuer, err)
	}
	o.provider.Store(provider)
	return provider, nil
}

func (o *oidcLogin) config(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.options.ClientID, ClientSecret: o.options.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: o.redirect, Scopes: append([]string{oidc.ScopeOpenID}, o.options.Scopes...),
	}
}

// begin starts a login. It returns the address at the provider and the value of the
// cookie.
func (o *oidcLogin) begin(ctx context.Context, to string, previous *userSession) (address, cookie string, err error) {
	provider, err := o.discover(ctx)
	if err != nil {
		return "", "", err
	}
	login := pendingLogin{State: rand.Text(), Verifier: oauth2.GenerateVerifier(), Nonce: rand.Text(), To: to}
	if previous != nil {
		login.Previous = previous.id
	}
	content, err := json.Marshal(login)
	if err != nil {
		return "", "", fmt.Errorf("encoding the login: %w", err)
	}
	address = o.config(provider).AuthCodeURL(login.State, oidc.Nonce(login.Nonce), oauth2.S256ChallengeOption(login.Verifier))
	return address, base64.RawURLEncoding.EncodeToString(content), nil
}

// take returns the login of a state, which works in the browser that started it. It works
// once, because the provider accepts a code once.
func take(state, cookie string) (pendingLogin, error) {
	var login pendingLogin
	content, err := base64.RawURLEncoding.DecodeString(cookie)
	if err == nil {
		err = json.Unmarshal(content, &login)
	}
	if err != nil || login.State == "" || subtle.ConstantTimeCompare([]byte(login.State), []byte(state)) != 1 {
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
	answer, err := o.config(provider).Exchange(ctx, code, oauth2.VerifierOption(login.Verifier))
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
	if verified.Nonce != login.Nonce {
		return "", errors.New("the ID token belongs to another login")
	}
	return raw, nil
}

// localPath returns a path of the page, and the first page for everything else.
func localPath(to string) string {
	address, err := url.Parse(to)
	if err != nil || len(to) > maxTarget || address.Scheme != "" || address.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") ||
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
	address, cookie, err := c.oidc.begin(r.Context(), r.URL.Query().Get("to"), c.session(r))
	if err != nil {
		loginFailed(w, r, err)
		return
	}
	setLoginCookie(w, cookie, pendingTime)
	http.Redirect(w, r, address, http.StatusFound) //nolint:gosec // It is that of the provider, which the administrator configures.
}

// finishOIDC opens a session for the user whom the identity provider leads back.
func (c *cluster) finishOIDC(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		loginFailed(w, r, err)
		return
	}
	query := r.URL.Query()
	login, err := take(query.Get("state"), cookie.Value)
	if err == nil {
		setLoginCookie(w, "", -time.Second)
	}
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
	c.replace(c.session(r))
	c.replace(c.logins.get(login.Previous))
	setCookie(w, key)
	http.Redirect(w, r, localPath(login.To), http.StatusFound)
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
