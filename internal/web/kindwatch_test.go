package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// interceptor answers requests instead of the API server, unless it returns nil.
type interceptor struct {
	next   http.RoundTripper
	answer func(*http.Request) *http.Response
}

func (i interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	if response := i.answer(r); response != nil {
		return response, nil
	}
	return i.next.RoundTrip(r)
}

// intercepted returns the configuration of an administrator whose requests for a resource
// are answered by a function.
func intercepted(resource string, answer func(*http.Request) *http.Response) *rest.Config {
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return interceptor{next, func(r *http.Request) *http.Response {
			if !strings.HasSuffix(r.URL.Path, "/"+resource) {
				return nil
			}
			return answer(r)
		}}
	})
	return config
}

// refusal is an answer of an API server that refuses a request.
func refusal(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "refused by the test",
	}
	return answered(r, code, status)
}

// answered is an answer of an API server.
func answered(r *http.Request, code int, content any) *http.Response {
	body, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func createAddon(t *testing.T, namespace, name string) {
	t.Helper()
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	addon.Spec.ClusterSelector.MatchLabels = map[string]string{"a": "b"}
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}}
	NewWithT(t).Expect(env.Client.Create(t.Context(), addon)).To(Succeed())
}

// session returns the last session that a client of the stream has received.
func (s *received) session() Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var session Session
	for _, e := range s.events {
		if data, found := strings.CutPrefix(e, "session "); found {
			session = Session{}
			_ = json.Unmarshal([]byte(data), &session)
		}
	}
	return session
}

func (s *received) denied() []Denied { return s.session().Denied }

func TestKinds_oneThatFailsHidesNothingElse(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	createAddon(t, namespace, "flux")
	var broken atomic.Bool
	broken.Store(true)
	config := intercepted("captaddons", func(r *http.Request) *http.Response {
		if !broken.Load() {
			return nil
		}
		return refusal(r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	})
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true})
	fleet, addons := p.stream("/api/v1/stream?view=fleet"), p.stream("/api/v1/stream?view=addons")
	p.Eventually(fleet.rows).Should(HaveKey(namespace + "/demo"))
	p.Eventually(fleet.denied).Should(HaveLen(1))
	p.Expect(fleet.denied()[0].Kind).To(Equal("CAPTAddon"))
	p.Expect(fleet.denied()[0].Error).To(ContainSubstring("refused by the test"))
	p.Expect(fleet.session().Lost).To(BeEmpty(), "the management cluster responds")

	// The rest stays live.
	createCluster(t, namespace, "later")
	p.Eventually(fleet.rows).Should(HaveKey(namespace + "/later"))

	broken.Store(false)
	p.Eventually(addons.all).Should(ContainSubstring(`"name":"flux"`))
	p.Eventually(addons.denied).Should(BeEmpty())
}

func TestKinds_oneThatIsRefusedNamesThePermission(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	// The review of the user's access allows what the request does not.
	config := intercepted("captclusters", func(r *http.Request) *http.Response {
		return refusal(r, http.StatusForbidden, metav1.StatusReasonForbidden)
	})
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.rows).Should(HaveKey(namespace + "/demo"))
	p.Eventually(s.denied).Should(Equal([]Denied{{Kind: "CAPTCluster", Missing: "list captclusters.infrastructure.cluster.x-k8s.io", Role: viewerRole}}))
	p.Expect(s.rows()[namespace+"/demo"].Message).NotTo(ContainSubstring("does not exist"), "what cannot be read may exist")
	createCluster(t, namespace, "later")
	p.Eventually(s.rows).Should(HaveKey(namespace + "/later"))
}

func TestKinds_oneThatIsNotInstalledIsAbsent(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	config := intercepted("captmachinepools", func(r *http.Request) *http.Response {
		return refusal(r, http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.rows).Should(HaveKey(namespace + "/demo"))
	p.Eventually(s.denied).Should(Equal([]Denied{{Kind: "CAPTMachinePool", Absent: true}}))
}

func TestKinds_aNewRoleIsNoticedWhenAPageIsOpened(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createAddon(t, namespace, "flux")
	bind(t, "carla", namespace, readAll)
	p := start(t, Options{Config: as("carla"), Namespace: namespace, OnlyNamespace: true}, func(s *Server) { s.local.user.watch.reviewAfter = 0 })
	first := p.stream("/api/v1/stream?view=addons")
	p.Eventually(first.denied).Should(ContainElement(Denied{Kind: "CAPTAddon", Missing: "list captaddons.addons.cluster.x-k8s.io", Role: viewerRole}))
	p.Eventually(first.all).Should(ContainSubstring("synced"))
	bind(t, "carla", namespace, rbacv1.PolicyRule{APIGroups: []string{addonsv1.GroupVersion.Group}, Resources: []string{"captaddons"}, Verbs: []string{"list", "watch"}})
	p.Eventually(func() string {
		// The API server learns about a role a moment later.
		p.stream("/api/v1/stream?view=addons").cancel()
		return first.all()
	}, waits.Timeout, "1s").Should(ContainSubstring(`"name":"flux"`))
}

// The first snapshot is complete: nothing appears a moment later that existed before.
func TestStream_waitsForAllKindsAndShowsTheProgress(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	for i := range 5 {
		createWorkspace(t, namespace, "demo", fmt.Sprintf("w%d", i))
	}
	release := make(chan struct{})
	config := intercepted("workspacetemplateapplies", func(r *http.Request) *http.Response {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return nil
	})
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=cluster/" + namespace + "/demo")
	total := len(kinds())
	p.Eventually(func() *Loading { return s.session().Loading }).Should(Equal(&Loading{Done: total - 1, Total: total}))
	p.Expect(s.all()).NotTo(ContainSubstring("synced"))
	close(release)
	p.Eventually(s.all).Should(ContainSubstring("synced"))
	p.Expect(s.session().Loading).To(BeNil())
	first, _, _ := strings.Cut(s.all(), "synced")
	for i := range 5 {
		p.Expect(first).To(ContainSubstring(fmt.Sprintf(`"name":"w%d"`, i)), "the first snapshot is complete")
	}
}

func TestScope_saysWhyAKindCannotBeListed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	resource := func(group string) schema.GroupResource { return schema.GroupResource{Group: group, Resource: "things"} }
	g.Expect((&scope{kind: "A", all: true}).problem()).To(BeNil())
	g.Expect((&scope{kind: "B", namespaces: []string{"x"}}).problem()).To(BeNil())
	g.Expect((&scope{kind: "C", absent: true}).problem()).To(Equal(&Denied{Kind: "C", Absent: true}))
	g.Expect((&scope{kind: "C", err: errors.New("discovery failed")}).problem()).To(Equal(&Denied{Kind: "C", Error: "discovery failed"}))
	g.Expect((&scope{kind: "D", resource: resource(infrav1.GroupVersion.Group)}).problem()).To(Equal(&Denied{Kind: "D", Missing: "list things.infrastructure.cluster.x-k8s.io", Role: viewerRole}))
	g.Expect((&scope{kind: "E", resource: resource(corev1.GroupName)}).problem()).To(Equal(&Denied{Kind: "E", Missing: "list things", Role: viewRole}))
	g.Expect((&scope{kind: "F", resource: resource(clusterv1.GroupVersion.Group)}).problem()).To(Equal(&Denied{Kind: "F", Missing: "list things.cluster.x-k8s.io", Role: viewerRole}))
}

func TestObjects_dropRemovesOneKind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := newObjects()
	clusters, workspaces := o.handler("Cluster"), o.handler("WorkspaceTemplateApply")
	clusters.OnAdd(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo"}}, true)
	owned := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "net", UID: "1", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	workspaces.OnAdd(owned, true)
	workspaces.OnAdd(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "alone", UID: "2"}}, true)
	g.Expect(o.workspaces).To(HaveLen(2))
	o.drop("WorkspaceTemplateApply")
	g.Expect(o.workspaces).To(BeEmpty())
	g.Expect(o.unowned["a"]).To(BeEmpty())
	g.Expect(o.clusters).To(HaveLen(1))
	g.Expect(o.describe(key{Namespace: "a", Name: "demo"}).Items).To(BeEmpty())
	workspaces.OnAdd(owned, false)
	g.Expect(o.workspaces).To(BeEmpty(), "what arrives late is ignored")
	o.drop("Cluster")
	g.Expect(o.clusters).To(BeEmpty())
}
