package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// received collects the events of a stream.
type received struct {
	mu     sync.Mutex
	events []string
	cancel context.CancelFunc
	// ended is closed when the stream has ended.
	ended chan struct{}
}

// stream opens a stream in the background.
func (b *browser) stream(path string) *received {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	response, err := b.client.Do(b.request(http.MethodGet, path, "").WithContext(ctx)) //nolint:bodyclose // The goroutine closes it.
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(response.StatusCode).To(Equal(http.StatusOK))
	s := &received{cancel: cancel, ended: make(chan struct{})}
	go s.read(response.Body)
	return s
}

// read collects events until the stream ends.
func (s *received) read(body io.ReadCloser) {
	defer close(s.ended)
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
			var change Rows[Row]
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
	anna.Eventually(annas.rows).Should(HaveKey(a + "/first"))
	ben.Eventually(bens.rows).Should(HaveKey(b + "/secret"))

	// What is created later does not reach the other user either.
	createCluster(t, b, "later")
	ben.Eventually(bens.rows).Should(HaveKey(b + "/later"))
	createCluster(t, a, "last")
	anna.Eventually(annas.rows).Should(HaveKey(a + "/last"))
	anna.Expect(annas.all()).NotTo(ContainSubstring(b))
	ben.Expect(bens.all()).NotTo(ContainSubstring(a))

	// The page names what is missing.
	anna.Expect(annas.all()).To(ContainSubstring(`"missing":"list captaddons.addons.cluster.x-k8s.io","role":"capt-viewer"`))
	anna.Expect(annas.all()).To(ContainSubstring(`"user":"anna"`))

	admin := start(t, Options{Config: env.Config, Namespace: "default"})
	all := admin.stream("/api/v1/stream?view=fleet")
	admin.Eventually(all.rows).Should(And(HaveKey(a+"/first"), HaveKey(b+"/secret")))
}

// A user may have a role only in a namespace that comes after many others.
func TestFleet_findsANamespaceAmongMany(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	bind(t, "dora", namespace, readAll)
	config := as("dora")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return interceptor{next, func(r *http.Request) *http.Response {
			if !strings.HasSuffix(r.URL.Path, "/namespaces") {
				return nil
			}
			list := corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
			limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			for i := range min(limit, 200) {
				list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)}})
			}
			if limit > 200 {
				list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			}
			return answered(r, http.StatusOK, list)
		}}
	})
	p := start(t, Options{Config: config, Namespace: "default"})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.rows).Should(HaveKey(namespace + "/demo"))
	p.Expect(s.session().Namespaces).To(ConsistOf(namespace))
}

func TestFleet_streamsChanges(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.all).Should(ContainSubstring("synced"))
	cluster := createCluster(t, namespace, "demo")
	p.Eventually(s.rows).Should(HaveKey(namespace + "/demo"))
	setStatus(t, cluster, func() {
		cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() string { return s.rows()[namespace+"/demo"].Message }).Should(Equal("CAPTCluster demo: The Cluster references it, but it does not exist: create it"))
	network := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	network.Spec.Region, network.Spec.VPCTemplateRef = "eu-west-1", &infrav1.TemplateReference{Name: "vpc"}
	p.Expect(env.Client.Create(t.Context(), network)).To(Succeed())
	setStatus(t, network, func() {
		network.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() string { return string(s.rows()[namespace+"/demo"].State) }).Should(Equal("Ready"))
	p.Expect(s.rows()[namespace+"/demo"].Region).To(Equal("eu-west-1"))

	waiting := createWorkspace(t, namespace, "demo", "net")
	setStatus(t, waiting, func() {
		waiting.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason, Message: "Plan waits", LastTransitionTime: metav1.Now()}}
	})
	p.Eventually(func() []Attention { return s.rows()[namespace+"/demo"].Attention }).Should(Equal([]Attention{{What: "Approval", Workspace: "net"}}))
	p.Expect(s.rows()[namespace+"/demo"].State).To(BeEquivalentTo("Attention"))

	p.Expect(env.Client.Delete(t.Context(), cluster)).To(Succeed())
	p.Eventually(s.rows).Should(BeEmpty())
}

func TestWorkspaces_streamsThoseWithoutAClusterToo(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createWorkspace(t, namespace, "demo", "net")
	alone := createWorkspace(t, namespace, "", "dns")
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	stream := p.stream("/api/v1/stream?view=workspaces")
	p.Eventually(stream.rows).Should(And(HaveKey(namespace+"/net"), HaveKey(namespace+"/dns")))
	p.Expect(env.Client.Delete(t.Context(), alone)).To(Succeed())
	p.Eventually(stream.rows).ShouldNot(HaveKey(namespace + "/dns"))
}

func TestCluster_streamsTreeAndEvents(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	cluster := createCluster(t, namespace, "demo")
	createWorkspace(t, namespace, "demo", "net")
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=cluster/" + namespace + "/demo")
	p.Eventually(s.all).Should(ContainSubstring(`"kind":"Workspace","name":"net"`))
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "demo.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: namespace, Name: "demo", UID: cluster.UID},
		Reason:         "Tested", Message: "It works", Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}
	p.Expect(env.Client.Create(t.Context(), event)).To(Succeed())
	p.Eventually(s.all).Should(ContainSubstring(`"reason":"Tested"`))

	feed := p.stream("/api/v1/stream?view=events")
	p.Eventually(feed.all).Should(ContainSubstring(`"reason":"Tested"`))
	gone := p.stream("/api/v1/stream?view=workspace/" + namespace + "/none")
	p.Eventually(gone.all).Should(ContainSubstring("gone"))
}

// A client that does not read costs one entry for each object, and catches up.
func TestStream_slowReaderCatchesUp(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "none", OnlyNamespace: true}, func(s *Server) { s.writeTimeout = waits.Timeout })
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
	}).Should(BeTrue())

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
	p.Expect(connection.SetReadDeadline(time.Now().Add(2 * waits.Timeout))).To(Succeed())
	reader := bufio.NewReader(connection)
	for len(final) < clusters {
		line, err := reader.ReadString('\n')
		p.Expect(err).NotTo(HaveOccurred())
		if data, found := strings.CutPrefix(line, "data: "); found && strings.Contains(data, `"rows"`) {
			var rows Rows[Row]
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
	// If the machine is so slow that the first write takes too long, that ends the stream too.
	reader := bufio.NewReader(connection)
	for line := ""; err == nil && !strings.Contains(line, "synced"); {
		line, err = reader.ReadString('\n')
	}
	handler, round := objects.handler("Test"), 0
	p.Eventually(func() int {
		round++
		for i := range 2000 {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "none", Name: fmt.Sprintf("c%04d", i), Labels: map[string]string{"round": fmt.Sprint(round)}}}
			cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: fmt.Sprintf("%s %d", strings.Repeat("x", 140), round)}}
			handler.OnAdd(cluster, false)
		}
		return streams()
	}).Should(BeZero())
}
