package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// site is a running server for many users.
type site struct {
	*WithT
	t      *testing.T
	server *Server
	base   string
	client *http.Client
}

// startCluster serves the page to the users of a management cluster, over TLS.
func startCluster(t *testing.T, options ClusterOptions) *site {
	t.Helper()
	s := &site{WithT: NewWithT(t), t: t}
	template := httptest.NewTLSServer(http.NotFoundHandler())
	s.client = template.Client()
	certificates := template.TLS.Certificates
	template.Close()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	s.Expect(err).NotTo(HaveOccurred())
	s.base = "https://" + listener.Addr().String()
	options.Origin, options.Context = s.base, "management"
	if options.Idle == 0 {
		options.Idle, options.Lifetime = time.Hour, 12*time.Hour
	}
	s.server, err = NewCluster(options)
	s.Expect(err).NotTo(HaveOccurred())
	s.server.ListenCluster(listener, &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		s.Expect(<-served).To(Succeed())
	})
	return s
}

func (s *site) logins() *logins { return s.server.access.(*cluster).logins }

// visitor is a browser of a user.
type visitor struct{ browser }

func (s *site) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	s.Expect(err).NotTo(HaveOccurred())
	client := *s.client
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{browser{WithT: s.WithT, t: s.t, base: s.base, client: &client, setKey: func(h http.Header, key string) { h.Set(csrfHeader, key) }}}
}

// login logs in with a token.
func (v *visitor) login(token string) Login {
	v.t.Helper()
	response, body := v.ask(http.MethodPost, sessionPath, `{"token":"`+token+`"}`)
	v.Expect(response.StatusCode).To(Equal(http.StatusOK), body)
	var login Login
	v.Expect(json.Unmarshal([]byte(body), &login)).To(Succeed())
	v.key = login.Key
	return login
}

// tokenOf creates a service account with rules in a namespace, and returns a token of it.
func tokenOf(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	g := NewWithT(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Expect(env.Client.Create(t.Context(), account)).To(Succeed())
	if len(rules) > 0 {
		bind(t, "system:serviceaccount:"+namespace+":"+name, namespace, rules...)
	}
	request := &authenticationv1.TokenRequest{}
	g.Expect(env.Client.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
	return request.Status.Token
}

func TestCluster_actsAsTheUserOfTheToken(t *testing.T) {
	t.Parallel()
	a, b := env.Namespace(t), env.Namespace(t)
	createCluster(t, a, "first")
	createCluster(t, b, "secret")
	s := startCluster(t, ClusterOptions{Config: env.Config})
	anna, ben := s.visitor(), s.visitor()
	s.Expect(anna.login(tokenOf(t, a, "anna", readAll)).User).To(Equal("system:serviceaccount:" + a + ":anna"))
	for _, session := range s.logins().sessions {
		s.Expect(session.owner).To(Equal("system:serviceaccount:"+a), "service accounts of a namespace count as one user")
	}
	ben.login(tokenOf(t, b, "ben", readAll))
	annas := anna.stream("/api/v1/stream?view=fleet")
	bens := ben.stream("/api/v1/stream?view=fleet")
	s.Eventually(annas.rows).Should(HaveKey(a + "/first"))
	s.Eventually(bens.rows).Should(HaveKey(b + "/secret"))
	s.Expect(annas.all()).NotTo(ContainSubstring("secret"))
	s.Expect(annas.denied()).To(ContainElement(HaveField("Kind", "CAPTAddon")))

	// A page that is loaded again finds its session, and another user has none.
	_, body := anna.ask(http.MethodGet, sessionPath, "")
	s.Expect(body).To(ContainSubstring(anna.key))
	_, body = s.visitor().ask(http.MethodGet, sessionPath, "")
	s.Expect(body).To(MatchJSON(`{"token":true}`))

	apply := createPlan(t, a)
	response, body := anna.ask(http.MethodPost, "/api/v1/workspaces/"+a+"/"+apply.Name+"/approve", `{"plan":"`+planID+`"}`)
	s.Expect(response.StatusCode).To(Equal(http.StatusForbidden), body)
	response, body = ben.ask(http.MethodGet, "/api/v1/workspaces/"+a+"/"+apply.Name+"/plan", "")
	s.Expect(response.StatusCode).To(Equal(http.StatusForbidden), body)
}

func TestCluster_usersFindTheirNamespaces(t *testing.T) {
	t.Parallel()
	home, other := env.Namespace(t), env.Namespace(t)
	createCluster(t, other, "demo")
	token := tokenOf(t, home, "carla")
	bind(t, "system:serviceaccount:"+home+":carla", other, readAll)
	s := startCluster(t, ClusterOptions{Config: env.Config, Namespaces: []string{other}})
	carla := s.visitor()
	carla.login(token)
	rows := carla.stream("/api/v1/stream?view=fleet")
	s.Eventually(rows.rows).Should(HaveKey(other + "/demo"))
}

func TestCluster_refusesAttacks(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	s := startCluster(t, ClusterOptions{Config: env.Config})
	token := tokenOf(t, namespace, "anna", readAll)
	anna := s.visitor()

	for _, wrong := range []string{"", "wrong", token + "x", "a b", strings.Repeat("x", maxToken+1), `a\r\nb`} {
		response, _ := anna.ask(http.MethodPost, sessionPath, `{"token":"`+wrong+`"}`)
		s.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized), "%.20s", wrong)
		s.Expect(response.Header).NotTo(HaveKey("Set-Cookie"))
	}
	response, body := anna.ask(http.MethodPost, sessionPath, `{"token":"`+token+`"}`)
	s.Expect(response.StatusCode).To(Equal(http.StatusOK), body)
	s.Expect(body).NotTo(ContainSubstring(token))
	cookie := response.Header.Get("Set-Cookie")
	s.Expect(cookie).To(And(HavePrefix("__Host-capt-session="), ContainSubstring("; Path=/"), ContainSubstring("; HttpOnly"), ContainSubstring("; Secure"), ContainSubstring("; SameSite=Strict")))
	s.Expect(cookie).NotTo(Or(ContainSubstring("Domain"), ContainSubstring(token)))
	s.Expect(response.Header.Get("Strict-Transport-Security")).NotTo(BeEmpty())
	s.Expect(response.Header.Get("Content-Security-Policy")).To(Equal(contentSecurityPolicy))
	var login Login
	s.Expect(json.Unmarshal([]byte(body), &login)).To(Succeed())
	anna.key = login.Key

	path := "/api/v1/workspaces/" + namespace + "/none/plan"
	response, _ = anna.ask(http.MethodGet, path, "")
	s.Expect(response.StatusCode).To(Equal(http.StatusNotFound), "the session works")
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		status int
		attack func(*http.Request)
	}{
		"without the key":         {http.StatusUnauthorized, func(r *http.Request) { r.Header.Del(csrfHeader) }},
		"a guessed key":           {http.StatusUnauthorized, set(csrfHeader, "x")},
		"the key as a bearer":     {http.StatusUnauthorized, func(r *http.Request) { r.Header.Del(csrfHeader); r.Header.Set("Authorization", "Bearer "+anna.key) }},
		"the token as a bearer":   {http.StatusUnauthorized, func(r *http.Request) { r.Header.Del(csrfHeader); r.Header.Set("Authorization", "Bearer "+token) }},
		"another host":            {http.StatusForbidden, func(r *http.Request) { r.Host = "evil.example" }},
		"another origin":          {http.StatusForbidden, set("Origin", "https://evil.example")},
		"origin null":             {http.StatusForbidden, set("Origin", "null")},
		"the origin without TLS":  {http.StatusForbidden, set("Origin", strings.Replace(s.base, "https", "http", 1))},
		"impersonation by header": {http.StatusNotFound, set("Impersonate-User", "admin")},
	} {
		response, body := anna.ask(http.MethodGet, path, "", test.attack)
		s.Expect(response.StatusCode).To(Equal(test.status), "%s: %s", name, body)
	}
	for name, attack := range map[string]func(*http.Request){
		"another site": set("Sec-Fetch-Site", "cross-site"), "form": set("Content-Type", "application/x-www-form-urlencoded"),
	} {
		response, _ := anna.ask(http.MethodPost, sessionPath, `{"token":"`+token+`"}`, attack)
		s.Expect(response.StatusCode).To(BeElementOf(http.StatusForbidden, http.StatusUnsupportedMediaType), "login by %s", name)
	}
	// The key does not replace the cookie.
	stranger := s.visitor()
	stranger.key = anna.key
	response, _ = stranger.ask(http.MethodGet, path, "")
	s.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
}

func TestCluster_streamsEndWithTheSession(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	s := startCluster(t, ClusterOptions{Config: env.Config})
	token := tokenOf(t, namespace, "anna", readAll)
	first, second := s.visitor(), s.visitor()
	first.login(token)
	second.login(token)
	one, two := first.stream("/api/v1/stream?view=fleet"), second.stream("/api/v1/stream?view=fleet")
	s.Eventually(two.all).Should(ContainSubstring("synced"))

	response, _ := first.ask(http.MethodDelete, sessionPath, "", func(r *http.Request) { r.Header.Set(csrfHeader, "x") })
	s.Expect(response.StatusCode).To(Equal(http.StatusForbidden), "another site cannot log a user out")
	response, _ = first.ask(http.MethodDelete, sessionPath, "")
	s.Expect(response.StatusCode).To(Equal(http.StatusOK))
	s.Eventually(one.ended).Should(BeClosed())
	response, _ = first.ask(http.MethodGet, "/api/v1/stream?view=fleet", "")
	s.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
	s.Expect(two.ended).NotTo(BeClosed())

	// The management cluster rejects the token, because its account is deleted.
	s.Expect(env.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "anna"}})).To(Succeed())
	s.Eventually(func() int {
		response, _ := second.ask(http.MethodGet, "/api/v1/workspaces/"+namespace+"/none/can", "")
		return response.StatusCode
	}).Should(Equal(http.StatusUnauthorized))
	s.Eventually(two.ended).Should(BeClosed())
	s.Expect(s.logins().sessions).To(BeEmpty(), "the watches end")
}

func TestLogins_expireAndAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	idle, cookie := c.mustEnter("a")
	c.Expect(c.find(cookie)).To(Equal(idle))
	c.now = c.now.Add(time.Hour + time.Second)
	c.Expect(c.find(cookie)).To(BeNil(), "idle")
	c.Expect(idle.ctx.Err()).To(HaveOccurred())

	used, cookie := c.mustEnter("a")
	granted := c.use(used)
	c.now = c.now.Add(2 * time.Hour)
	c.expire()
	c.Expect(c.find(cookie)).To(Equal(used), "a page is open")
	c.now = c.now.Add(time.Hour)
	c.expire()
	c.Expect(c.find(cookie)).To(BeNil(), "its time is over")
	granted.done()
	c.Expect(c.use(used)).To(BeNil())
	c.Expect(c.sessions).To(BeEmpty())

	for i := range maxUserSessions {
		session, _ := c.mustEnter(fmt.Sprint("user", i))
		if i > 0 {
			c.use(session)
		}
	}
	last, _ := c.mustEnter("one more, for whom the idle user makes room")
	c.use(last)
	_, _, err := c.enter("too many")
	c.Expect(err).To(MatchError(errBusy))
	c.Expect(c.sessions).To(HaveLen(maxUserSessions))
	c.stop()
	c.Expect(c.sessions).To(BeEmpty())
}

func TestCluster_neverUsesItsOwnCredentials(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own := rest.CopyConfig(env.Config)
	own.BearerToken, own.BearerTokenFile, own.Username, own.Password = "own", "/own", "own", "own"
	own.Impersonate.UserName = "own"
	config := ClusterOptions{Config: own}.configFor("users", func() {})
	g.Expect(config.BearerToken).To(Equal("users"))
	g.Expect([]string{config.BearerTokenFile, config.Username, config.Password, config.Impersonate.UserName, config.CertFile, config.KeyFile}).To(HaveEach(""))
	g.Expect(config.CertData).To(BeEmpty())
	g.Expect(config.KeyData).To(BeEmpty())
	for _, origin := range []string{"", "capt.example.com", "http://capt.example.com", "https://", "https://capt.example.com/path"} {
		_, err := NewCluster(ClusterOptions{Config: own, Origin: origin})
		g.Expect(err).To(HaveOccurred(), origin)
	}
}

func TestToken_expiryIsRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(expiryOf("a." + encodePart(map[string]any{"exp": 1700000000}) + ".b")).To(BeTemporally("==", time.Unix(1700000000, 0)))
	for _, token := range []string{"", "opaque", "a.b.c", "a." + encodePart(map[string]any{}) + ".b"} {
		g.Expect(expiryOf(token)).To(BeZero(), token)
	}
}
