package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &env))
}

// timeout is the limit for every wait; a busy machine is slow.
const timeout = time.Minute

// page is a running server and the key of a session.
type page struct {
	*WithT
	t      *testing.T
	server *Server
	base   string
	key    string
}

// start serves the page with the identity of a configuration.
func start(t *testing.T, options Options, changes ...func(*Server)) *page {
	t.Helper()
	p := &page{WithT: NewWithT(t), t: t}
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

func (p *page) request(method, path, body string) *http.Request {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	p.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		r.Header.Set("Authorization", "Bearer "+p.key)
	}
	return r
}

// send sends a request and returns the answer.
func (p *page) send(method, path, body string, changes ...func(*http.Request)) (int, string) {
	p.t.Helper()
	r := p.request(method, path, body)
	for _, change := range changes {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	p.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	p.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

// received collects the events of a stream.
type received struct {
	mu     sync.Mutex
	events []string
	cancel context.CancelFunc
}

// stream opens a stream in the background.
func (p *page) stream(path string) *received {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	response, err := http.DefaultClient.Do(p.request(http.MethodGet, path, "").WithContext(ctx)) //nolint:bodyclose // The goroutine closes it.
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(response.StatusCode).To(Equal(http.StatusOK))
	s := &received{cancel: cancel}
	go s.read(response.Body)
	p.t.Cleanup(cancel)
	return s
}

// read collects events until the stream ends.
func (s *received) read(body io.ReadCloser) {
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	name := ""
	for lines.Scan() {
		if event, found := strings.CutPrefix(lines.Text(), "event: "); found {
			name = event
		} else if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			s.mu.Lock()
			s.events = append(s.events, name+" "+data)
			s.mu.Unlock()
		}
	}
}

func (s *received) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.events, "\n")
}

// rows returns the rows that a client of the stream has now.
func (s *received) rows() map[string]Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := map[string]Row{}
	for _, e := range s.events {
		name, data, _ := strings.Cut(e, " ")
		switch name {
		case "reset":
			clear(rows)
		case "rows":
			var change Rows
			_ = json.Unmarshal([]byte(data), &change)
			for _, row := range change.Rows {
				rows[row.Namespace+"/"+row.Name] = row
			}
			for _, removed := range change.Removed {
				delete(rows, removed)
			}
		}
	}
	return rows
}

// as returns the configuration of a user. The API server authorizes his requests as
// it does for a login.
func as(user string) *rest.Config {
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = user
	return config
}

// bind gives a user a role in a namespace.
func bind(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "role-"}, Rules: rules}
	g.Expect(env.Client.Create(t.Context(), role)).To(Succeed())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	g.Expect(env.Client.Create(t.Context(), binding)).To(Succeed())
}

var readAll = rbacv1.PolicyRule{
	APIGroups: []string{"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"},
	Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
}

func createCluster(t *testing.T, namespace, name string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name}
	NewWithT(t).Expect(env.Client.Create(t.Context(), cluster)).To(Succeed())
	return cluster
}

func setStatus(t *testing.T, obj client.Object, edit func()) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit()
		return env.Client.Status().Update(t.Context(), obj)
	}, timeout).Should(Succeed())
}

func TestFleet_streamsOnlyWhatTheUserMayList(t *testing.T) {
	t.Parallel()
	a, b := env.Namespace(t), env.Namespace(t)
	bind(t, "anna", a, readAll)
	bind(t, "ben", b, readAll)
	createCluster(t, a, "first")
	createCluster(t, b, "secret")

	anna := start(t, Options{Config: as("anna"), Namespace: a})
	ben := start(t, Options{Config: as("ben"), Namespace: b})
	annas, bens := anna.stream("/api/v1/stream?view=fleet"), ben.stream("/api/v1/stream?view=fleet")
	anna.Eventually(annas.rows, timeout).Should(HaveKey(a + "/first"))
	ben.Eventually(bens.rows, timeout).Should(HaveKey(b + "/secret"))

	// What is created later does not reach the other user either.
	createCluster(t, b, "later")
	ben.Eventually(bens.rows, timeout).Should(HaveKey(b + "/later"))
	createCluster(t, a, "last")
	anna.Eventually(annas.rows, timeout).Should(HaveKey(a + "/last"))
	anna.Expect(annas.all()).NotTo(ContainSubstring(b))
	ben.Expect(bens.all()).NotTo(ContainSubstring(a))

	// The page names what is missing.
	anna.Expect(annas.all()).To(ContainSubstring(`"missing":"list captaddons.addons.cluster.x-k8s.io","role":"capt-viewer"`))
	anna.Expect(annas.all()).To(ContainSubstring(`"user":"anna"`))

	admin := start(t, Options{Config: env.Config, Namespace: "default"})
	all := admin.stream("/api/v1/stream?view=fleet")
	admin.Eventually(all.rows, timeout).Should(And(HaveKey(a+"/first"), HaveKey(b+"/secret")))
}

func TestFleet_streamsChanges(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.all, timeout).Should(ContainSubstring("synced"))
	cluster := createCluster(t, namespace, "demo")
	p.Eventually(s.rows, timeout).Should(HaveKey(namespace + "/demo"))
	setStatus(t, cluster, func() {
		cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() string { return s.rows()[namespace+"/demo"].Message }, timeout).Should(Equal("CAPTCluster demo: The Cluster references it, but it does not exist: create it"))
	network := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	network.Spec.Region, network.Spec.VPCTemplateRef = "eu-west-1", &infrav1.TemplateReference{Name: "vpc"}
	p.Expect(env.Client.Create(t.Context(), network)).To(Succeed())
	setStatus(t, network, func() {
		network.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() string { return string(s.rows()[namespace+"/demo"].State) }, timeout).Should(Equal("Ready"))
	p.Expect(s.rows()[namespace+"/demo"].Region).To(Equal("eu-west-1"))

	waiting := createWorkspace(t, namespace, "demo", "net")
	setStatus(t, waiting, func() {
		waiting.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason, Message: "Plan waits", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() []Attention { return s.rows()[namespace+"/demo"].Attention }, timeout).Should(Equal([]Attention{{What: "Approval", Workspace: "net"}}))
	p.Expect(s.rows()[namespace+"/demo"].State).To(BeEquivalentTo("Attention"))

	p.Expect(env.Client.Delete(t.Context(), cluster)).To(Succeed())
	p.Eventually(s.rows, timeout).Should(BeEmpty())
}

func createWorkspace(t *testing.T, namespace, cluster, name string) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "t"}, Approval: infrav1.ApprovalManual},
	}
	NewWithT(t).Expect(env.Client.Create(t.Context(), apply)).To(Succeed())
	return apply
}

func TestCluster_streamsTreeAndEvents(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	cluster := createCluster(t, namespace, "demo")
	createWorkspace(t, namespace, "demo", "net")
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=cluster/" + namespace + "/demo")
	p.Eventually(s.all, timeout).Should(ContainSubstring(`"kind":"Workspace","name":"net"`))
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "demo.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: namespace, Name: "demo", UID: cluster.UID},
		Reason:         "Tested", Message: "It works", Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}
	p.Expect(env.Client.Create(t.Context(), event)).To(Succeed())
	p.Eventually(s.all, timeout).Should(ContainSubstring(`"reason":"Tested"`))

	feed := p.stream("/api/v1/stream?view=events")
	p.Eventually(feed.all, timeout).Should(ContainSubstring(`"reason":"Tested"`))
	gone := p.stream("/api/v1/stream?view=workspace/" + namespace + "/none")
	p.Eventually(gone.all, timeout).Should(ContainSubstring("gone"))
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

	for range maxSessions + 1 {
		now = now.Add(time.Second)
		key, ok = s.open(s.newLink(time.Minute))
		g.Expect(ok).To(BeTrue())
	}
	g.Expect(s.active).To(HaveLen(maxSessions))
	r.Header.Set("Authorization", "Bearer "+key)
	g.Expect(s.valid(r)).To(BeTrue(), "the newest")
}

// A client that does not read costs one entry for each object, and catches up.
func TestStream_slowReaderCatchesUp(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "none", OnlyNamespace: true})
	objects := p.server.local.user.watch.objects
	connection, err := net.Dial("tcp4", strings.TrimPrefix(p.base, "http://"))
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	p.Expect(connection.(*net.TCPConn).SetReadBuffer(64 << 10)).To(Succeed())
	r := p.request(http.MethodGet, "/api/v1/stream?view=fleet", "")
	p.Expect(r.Write(connection)).To(Succeed())
	p.Eventually(func() bool {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		return objects.synced && len(objects.streams) == 1
	}, timeout).Should(BeTrue())

	const clusters, rounds = 1000, 20
	handler := objects.handler("Test")
	for round := range rounds {
		for i := range clusters {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "none", Name: fmt.Sprintf("c%04d", i)}}
			cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: fmt.Sprintf("%s round %d", strings.Repeat("x", 100), round)}}
			handler.OnAdd(cluster, false)
		}
	}
	objects.mu.Lock()
	for s := range objects.streams {
		s.mu.Lock()
		p.Expect(len(s.changed)).To(BeNumerically("<=", clusters+2))
		s.mu.Unlock()
	}
	objects.mu.Unlock()

	last := fmt.Sprintf("round %d", rounds-1)
	final := map[string]bool{}
	p.Expect(connection.(*net.TCPConn).SetReadBuffer(4 << 20)).To(Succeed())
	p.Expect(connection.SetReadDeadline(time.Now().Add(2 * timeout))).To(Succeed())
	reader := bufio.NewReader(connection)
	for len(final) < clusters {
		line, err := reader.ReadString('\n')
		p.Expect(err).NotTo(HaveOccurred())
		if data, found := strings.CutPrefix(line, "data: "); found && strings.Contains(data, `"rows"`) {
			var rows Rows
			p.Expect(json.Unmarshal([]byte(data), &rows)).To(Succeed())
			for _, row := range rows.Rows {
				if strings.HasSuffix(row.Message, last) {
					final[row.Name] = true
				}
			}
		}
	}
}

func TestStream_endsForAClientThatStopsReading(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "none", OnlyNamespace: true}, func(s *Server) { s.writeTimeout = 100 * time.Millisecond })
	objects := p.server.local.user.watch.objects
	connection, err := net.Dial("tcp4", strings.TrimPrefix(p.base, "http://"))
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	p.Expect(p.request(http.MethodGet, "/api/v1/stream?view=fleet", "").Write(connection)).To(Succeed())
	streams := func() int {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		return len(objects.streams)
	}
	p.Eventually(streams, timeout).Should(Equal(1))
	handler, round := objects.handler("Test"), 0
	p.Eventually(func() int {
		round++
		for i := range 2000 {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "none", Name: fmt.Sprintf("c%04d", i), Labels: map[string]string{"round": fmt.Sprint(round)}}}
			cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: fmt.Sprintf("%s %d", strings.Repeat("x", 140), round)}}
			handler.OnAdd(cluster, false)
		}
		return streams()
	}, timeout).Should(BeZero())
}

// countingTransport counts requests.
type countingTransport struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

func TestWatch_sendsNoRequestsAtRest(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	var count atomic.Int64
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, &count} })
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true}, func(s *Server) { s.local.user.watch.idleAfter = 10 * time.Millisecond })
	first := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(first.rows, timeout).Should(HaveLen(1))
	// The reflectors open their watches after the lists.
	var settled int64
	p.Eventually(func() bool {
		before := settled
		settled = count.Load()
		return settled == before
	}, timeout, time.Second).Should(BeTrue())
	second := p.stream("/api/v1/stream?view=cluster/" + namespace + "/demo")
	p.Eventually(second.all, timeout).Should(ContainSubstring("synced"))
	p.Consistently(count.Load, 5*time.Second).Should(Equal(settled), "tabs share watches, and nothing polls")

	// Without a stream the watches end.
	first.cancel()
	second.cancel()
	p.Eventually(func() bool {
		p.server.local.user.watch.mu.Lock()
		defer p.server.local.user.watch.mu.Unlock()
		return p.server.local.user.watch.cancel == nil
	}, timeout).Should(BeTrue())
}

func TestAssets_areSmall(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	size, err := compressedSize()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(size).To(BeNumerically("<", 200_000), "bytes of the page, compressed")
	if !Built() {
		t.Log("the page is not built: run make ui")
	}
}

func TestAssets_placeholderSaysHowToBuildThePage(t *testing.T) {
	t.Parallel()
	content, err := assets.ReadFile("assets/placeholder.html")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(bytes.Contains(content, []byte("make ui"))).To(BeTrue())
}

// compressedSize returns the size of the built page with all its files, compressed as
// for a transfer.
func compressedSize() (int, error) {
	total := 0
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assets.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(content); err != nil {
			return fmt.Errorf("compressing %s: %w", name, err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("compressing %s: %w", name, err)
		}
		total += out.Len()
		return nil
	})
	return total, err
}
