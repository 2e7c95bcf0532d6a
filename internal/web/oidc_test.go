package web

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// encodePart returns a part of a JSON Web Token.
func encodePart(content any) string {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// provider is an identity provider: discovery, authorization with PKCE, tokens and keys.
type provider struct {
	*httptest.Server
	key *rsa.PrivateKey
	// user logs in, and change edits the claims of his token.
	user   string
	change func(claims map[string]any)

	mu sync.Mutex
	// codes are the requests that were authorized.
	codes map[string]url.Values
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := &provider{key: key, user: "anna@example.com", codes: map[string]url.Values{}, change: func(map[string]any) {}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// authorize leads back with a code, as after a user's consent.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = query
	p.mu.Unlock()
	back := url.Values{"state": {query.Get("state")}, "code": {code}}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code, if the client proves that it started the login.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	request, found := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	p.mu.Unlock()
	proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !found || request.Get("code_challenge_method") != "S256" || base64.RawURLEncoding.EncodeToString(proof[:]) != request.Get("code_challenge") ||
		r.FormValue("redirect_uri") != request.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		respond(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": request.Get("client_id"), "sub": p.user, "email": p.user, "nonce": request.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	p.change(claims)
	respond(w, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 3600, "id_token": p.sign(claims)})
}

func (p *provider) sign(claims map[string]any) string {
	text := encodePart(map[string]string{"alg": "RS256", "kid": "1", "typ": "JWT"}) + "." + encodePart(claims)
	hash := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, hash[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// userOf returns the user of a token of the provider, or an empty string.
func (p *provider) userOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || rsa.VerifyPKCS1v15(&p.key.PublicKey, crypto.SHA256, hash[:], signature) != nil {
		return ""
	}
	content, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Email string }
	_ = json.Unmarshal(content, &claims)
	return claims.Email
}

// trusting returns the configuration of an API server that accepts the tokens of a
// provider: a proxy in front of the real one, which authorizes the user.
func trusting(t *testing.T, p *provider) *rest.Config {
	t.Helper()
	g := NewWithT(t)
	target, err := url.Parse(env.Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
		r.Out.Header.Set("Impersonate-User", p.userOf(strings.TrimPrefix(r.In.Header.Get("Authorization"), "Bearer ")))
	}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.userOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) == "" {
			w.WriteHeader(http.StatusUnauthorized)
			respond(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": http.StatusUnauthorized, "reason": "Unauthorized"})
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// loginAt follows the redirects of a login, from the page to the provider and back.
func (v *visitor) loginAt(p *provider, to string) *answer {
	v.t.Helper()
	response, body := v.ask(http.MethodGet, loginPath+"?to="+url.QueryEscape(to), "", withoutOrigin)
	v.Expect(response.StatusCode).To(Equal(http.StatusFound), body)
	back := v.authorize(p, response.Header.Get("Location"))
	response, body = v.ask(http.MethodGet, back, "", withoutOrigin)
	v.Expect(response.StatusCode).To(Equal(http.StatusFound), body)
	return response
}

// withoutOrigin makes a request one that a browser sends for a link.
func withoutOrigin(r *http.Request) { r.Header.Del("Origin") }

// authorize visits the provider, and returns the path to which it leads back.
func (v *visitor) authorize(p *provider, address string) string {
	v.t.Helper()
	client := *p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, http.NoBody)
	v.Expect(err).NotTo(HaveOccurred())
	response, err := client.Do(r)
	v.Expect(err).NotTo(HaveOccurred())
	_ = response.Body.Close()
	location := response.Header.Get("Location")
	v.Expect(location).To(HavePrefix(v.base + callbackPath))
	return strings.TrimPrefix(location, v.base)
}

func TestOIDC_logsInWithTheTokenOfTheProvider(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	bind(t, "anna@example.com", namespace, readAll)
	p := newProvider(t)
	s := startCluster(t, ClusterOptions{
		Config: trusting(t, p), Namespaces: []string{namespace},
		OIDC: &OIDC{Issuer: p.URL, ClientID: "capt", Name: "Example", Scopes: []string{"email"}, Client: p.Client()},
	})
	anna := s.visitor()
	_, body := anna.ask(http.MethodGet, sessionPath, "")
	s.Expect(body).To(MatchJSON(`{"token":true,"provider":"Example"}`))
	response := anna.loginAt(p, "/clusters/"+namespace+"/demo?x=1")
	s.Expect(response.Header.Get("Location")).To(Equal("/clusters/" + namespace + "/demo?x=1"))
	_, body = anna.ask(http.MethodGet, sessionPath, "")
	var login Login
	s.Expect(json.Unmarshal([]byte(body), &login)).To(Succeed())
	s.Expect(login.User).To(Equal("anna@example.com"))
	anna.key = login.Key
	rows := anna.stream("/api/v1/stream?view=fleet")
	s.Eventually(rows.rows).Should(HaveKey(namespace + "/demo"))

	// The page does not lead elsewhere.
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/login/oidc", "/api/v1/session", "evil"} {
		response := s.visitor().loginAt(p, to)
		s.Expect(response.Header.Get("Location")).To(Equal("/"), to)
	}
}

func TestOIDC_refusesAttacks(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := startCluster(t, ClusterOptions{Config: trusting(t, p), OIDC: &OIDC{Issuer: p.URL, ClientID: "capt", Client: p.Client()}})
	start := func(v *visitor) string {
		response, _ := v.ask(http.MethodGet, loginPath, "", withoutOrigin)
		cookie := response.Header.Get("Set-Cookie")
		s.Expect(cookie).To(And(HavePrefix("__Host-capt-login="), ContainSubstring("HttpOnly"), ContainSubstring("Secure"), ContainSubstring("SameSite=Lax")))
		return v.authorize(p, response.Header.Get("Location"))
	}
	refused := func(v *visitor, path, why string) {
		response, _ := v.ask(http.MethodGet, path, "", withoutOrigin)
		s.Expect(response.Header.Get("Location")).To(HavePrefix("/#login="), why)
		for _, cookie := range response.Cookies {
			s.Expect(cookie.Name).NotTo(Equal(sessionCookie), why)
		}
	}
	anna, mallory := s.visitor(), s.visitor()
	refused(mallory, start(anna), "the login of another browser, without a cookie")
	start(mallory)
	refused(mallory, start(anna), "the login of another browser")
	back := start(anna)
	refused(anna, strings.Replace(back, "code=", "code=x", 1), "a guessed code")
	refused(anna, back, "a login works once")
	refused(anna, callbackPath+"?state=guessed&code=x", "a guessed state")
	refused(anna, strings.Replace(start(anna), "code=", "error=access_denied&code=", 1), "the user refused")
	for name, change := range map[string]func(map[string]any){
		"another nonce":    func(claims map[string]any) { claims["nonce"] = "x" },
		"another audience": func(claims map[string]any) { claims["aud"] = "x" },
		"another issuer":   func(claims map[string]any) { claims["iss"] = "https://evil.example" },
		"an expired token": func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Hour).Unix() },
	} {
		p.change = change
		refused(anna, start(anna), name)
	}
	p.change = func(claims map[string]any) { claims["email"] = "" }
	response, _ := anna.ask(http.MethodGet, start(anna), "", withoutOrigin)
	s.Expect(response.Header.Get("Location")).To(Equal("/#login=refused"), "the management cluster does not know the user")
}
