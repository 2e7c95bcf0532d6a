package web

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &env))
}

// browser sends requests to a server.
type browser struct {
	*WithT
	t      *testing.T
	base   string
	client *http.Client
	// key is that of the session, and setKey adds it to a request.
	key    string
	setKey func(h http.Header, key string)
}

func (b *browser) request(method, path, body string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	b.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", b.base)
	if b.key != "" {
		b.setKey(r.Header, b.key)
	}
	return r
}

// answer is what a browser receives.
type answer struct {
	StatusCode int
	Header     http.Header
	Cookies    []*http.Cookie
}

// ask sends a request and returns the answer and its body.
func (b *browser) ask(method, path, body string, changes ...func(*http.Request)) (*answer, string) {
	b.t.Helper()
	r := b.request(method, path, body)
	for _, change := range changes {
		change(r)
	}
	response, err := b.client.Do(r)
	b.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	b.Expect(err).NotTo(HaveOccurred())
	return &answer{response.StatusCode, response.Header, response.Cookies()}, string(content)
}

// page is the browser of one user, with the server on his machine.
type page struct {
	browser
	server *Server
}

// send sends a request and returns the status and the body of the answer.
func (p *page) send(method, path, body string, changes ...func(*http.Request)) (int, string) {
	p.t.Helper()
	response, content := p.ask(method, path, body, changes...)
	return response.StatusCode, content
}

// start serves the page with the identity of a configuration.
func start(t *testing.T, options Options, changes ...func(*Server)) *page {
	t.Helper()
	p := &page{browser: browser{WithT: NewWithT(t), t: t, client: http.DefaultClient, setKey: func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }}}
	var err error
	p.server, err = New(options)
	p.Expect(err).NotTo(HaveOccurred())
	for _, change := range changes {
		change(p.server)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	p.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	p.Expect(p.server.Listen(listener)).To(Succeed())
	go func() { served <- p.server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		p.Expect(<-served).To(Succeed())
	})
	p.base = "http://" + listener.Addr().String()
	p.key = p.open(p.server.Link(time.Minute))
	return p
}

// open exchanges a link for the key of a session.
func (p *page) open(link string) string {
	p.t.Helper()
	_, token, _ := strings.Cut(link, "#token=")
	status, body := p.send(http.MethodPost, sessionPath, `{"token":"`+token+`"}`)
	p.Expect(status).To(Equal(http.StatusOK), body)
	var answer struct{ Key string }
	p.Expect(json.Unmarshal([]byte(body), &answer)).To(Succeed())
	return answer.Key
}

// routes are all routes of the server.
var routes = []struct{ method, path string }{
	{"GET", "/"},
	{"GET", "/clusters/a/b"},
	{"GET", "/assets/none.js"},
	{"GET", "/api/v1/session"},
	{"POST", "/api/v1/session"},
	{"GET", "/api/v1/stream?view=none"},
	{"GET", "/api/v1/workspaces/a/b/plan"},
	{"GET", "/api/v1/workspaces/a/b/log"},
	{"GET", "/api/v1/workspaces/a/b/snapshots"},
	{"GET", "/api/v1/workspaces/a/b/lock"},
	{"GET", "/api/v1/workspaces/a/b/can"},
	{"POST", "/api/v1/workspaces/a/b/approve"},
	{"POST", "/api/v1/workspaces/a/b/none"},
	{"POST", "/api/v1/addons/a/b/trigger"},
	{"GET", "/api/none"},
}

func TestRoutes_haveSecurityHeaders(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "default"})
	for _, route := range routes {
		response, err := http.DefaultClient.Do(p.request(route.method, route.path, "{}"))
		p.Expect(err).NotTo(HaveOccurred())
		_ = response.Body.Close()
		for name, want := range map[string]string{
			"Content-Security-Policy": contentSecurityPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			p.Expect(response.Header.Get(name)).To(Equal(want), "%s of %s", name, route.path)
		}
		if strings.HasPrefix(route.path, "/api/") {
			p.Expect(response.Header.Get("Cache-Control")).To(Equal("no-store"), route.path)
		}
		p.Expect(response.Header).NotTo(HaveKey("Set-Cookie"))
		p.Expect(response.Header).NotTo(HaveKey("Access-Control-Allow-Origin"))
	}
}

func TestRoutes_refuseAttacks(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "default"})
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		status int
		attack func(*http.Request)
	}{
		"host name of another site":     {http.StatusForbidden, func(r *http.Request) { r.Host = "evil.example" }},
		"host name with the port":       {http.StatusForbidden, func(r *http.Request) { r.Host = "evil.example:" + r.URL.Port() }},
		"another port":                  {http.StatusForbidden, func(r *http.Request) { r.Host = "127.0.0.1:1" }},
		"another origin":                {http.StatusForbidden, set("Origin", "https://evil.example")},
		"another port of this machine":  {http.StatusForbidden, set("Origin", "http://127.0.0.1:1")},
		"origin null":                   {http.StatusForbidden, set("Origin", "null")},
		"fetch metadata of another one": {http.StatusForbidden, set("Sec-Fetch-Site", "cross-site")},
		"form":                          {http.StatusUnsupportedMediaType, set("Content-Type", "application/x-www-form-urlencoded")},
		"text":                          {http.StatusUnsupportedMediaType, set("Content-Type", "text/plain")},
		"no session":                    {http.StatusUnauthorized, func(r *http.Request) { r.Header.Del("Authorization") }},
		"a guessed session":             {http.StatusUnauthorized, set("Authorization", "Bearer x")},
		"an empty session":              {http.StatusUnauthorized, set("Authorization", "Bearer ")},
	} {
		status, body := p.send(http.MethodPost, "/api/v1/workspaces/a/b/approve", "{}", test.attack)
		p.Expect(status).To(Equal(test.status), "%s: %s", name, body)
	}
	status, _ := p.send(http.MethodPost, "/api/v1/workspaces/a/b/approve", `{"plan":"`+strings.Repeat("x", maxBody)+`"}`)
	p.Expect(status).To(Equal(http.StatusRequestEntityTooLarge))
	status, _ = p.send(http.MethodPost, "/api/v1/workspaces/a/b/approve", `{"unknown":1}`)
	p.Expect(status).To(Equal(http.StatusBadRequest))
	status, _ = p.send(http.MethodDelete, "/api/v1/workspaces/a/b/plan", "")
	p.Expect(status).To(BeNumerically(">=", 400))
	// Reading needs a session too, and a page of another site cannot read.
	for _, attack := range []func(*http.Request){set("Authorization", "Bearer x"), set("Origin", "https://evil.example"), func(r *http.Request) { r.Host = "evil.example" }} {
		status, _ := p.send(http.MethodGet, "/api/v1/stream?view=fleet", "", attack)
		p.Expect(status).To(BeElementOf(http.StatusForbidden, http.StatusUnauthorized))
	}
	status, _ = p.send(http.MethodGet, "/", "", func(r *http.Request) { r.Host = "evil.example" })
	p.Expect(status).To(Equal(http.StatusForbidden))
}

// deadlines records the deadline for writing an answer.
type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = at
	return nil
}

func TestPage_disconnectsClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, err := New(Options{Config: env.Config})
	g.Expect(err).NotTo(HaveOccurred())
	server.local.port = "80"
	for _, path := range []string{"/", "/assets/none.js", sessionPath} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		server.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:80"+path, nil))
		g.Expect(w.write).To(BeTemporally("~", time.Now(), 2*time.Minute), path)
	}
}

func TestListen_refusesOtherAddresses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, err := New(Options{Config: env.Config})
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	g.Expect(server.Listen(listener)).To(MatchError(ContainSubstring("is not a loopback address")))
}

func TestLink_worksOnce(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "default"})
	_, token, _ := strings.Cut(p.server.Link(time.Minute), "#token=")
	body := `{"token":"` + token + `"}`
	status, _ := p.send(http.MethodPost, sessionPath, body)
	p.Expect(status).To(Equal(http.StatusOK))
	status, answer := p.send(http.MethodPost, sessionPath, body)
	p.Expect(status).To(Equal(http.StatusUnauthorized))
	p.Expect(answer).To(ContainSubstring("The link was used before or has expired"))
}

func TestSessions_expire(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	s := newSessions()
	s.now = func() time.Time { return now }
	late := s.newLink(time.Minute)
	key, ok := s.open(s.newLink(time.Minute))
	g.Expect(ok).To(BeTrue())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer "+key)
	g.Expect(s.valid(r)).To(BeTrue())
	now = now.Add(2 * time.Minute)
	_, ok = s.open(late)
	g.Expect(ok).To(BeFalse())
	now = now.Add(sessionIdle - 3*time.Minute)
	g.Expect(s.valid(r)).To(BeTrue(), "in use")
	now = now.Add(sessionIdle + time.Second)
	g.Expect(s.valid(r)).To(BeFalse())
	now = now.Add(-sessionIdle)
	g.Expect(s.valid(r)).To(BeFalse(), "an ended session stays ended")
}
