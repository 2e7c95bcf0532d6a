package flux

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestArtifactOf(t *testing.T) {
	const artifact = "artifact: {url: http://sc/gitrepository/n/infra/1.tar.gz, digest: 'sha256:1', revision: 'main@sha1:1', size: 12}"
	for name, tc := range map[string]struct{ spec, status, want, outdated string }{
		"an artifact":                      {"{}", "{observedGeneration: 2, " + artifact + "}", "", ""},
		"suspended with an artifact":       {"{suspend: true}", "{observedGeneration: 1, " + artifact + "}", "", "is suspended: its last artifact is used"},
		"not fetchable any more":           {"{}", "{observedGeneration: 2, conditions: [{type: Ready, status: 'False', message: 'no such host'}], " + artifact + "}", "", "is not ready, and its last artifact is used: no such host"},
		"suspended without one":            {"{suspend: true}", "{}", "is suspended and has no artifact: resume it", ""},
		"not fetched":                      {"{}", "{}", "source-controller has not fetched it", ""},
		"not fetchable":                    {"{}", "{conditions: [{type: Ready, status: 'False', message: 'repository not found'}]}", "has no artifact yet: repository not found", ""},
		"changed":                          {"{}", "{observedGeneration: 1, " + artifact + "}", "has changed", ""},
		"changed to what is not fetchable": {"{}", "{observedGeneration: 1, conditions: [{type: Ready, status: 'False', observedGeneration: 2, message: 'no such branch'}], " + artifact + "}", "", "its last artifact is used: no such branch"},
		"an early version of Flux":         {"{}", "{observedGeneration: 2, artifact: {url: http://sc/x}}", "Flux 2.0 or later", ""},
		"not a source":                     {"{}", "{artifact: 1}", "cannot be read", ""},
	} {
		g := NewWithT(t)
		obj := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte("apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {namespace: 'n', name: infra, generation: 2}\nspec: " + tc.spec + "\nstatus: " + tc.status))
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(obj.UnmarshalJSON(text)).To(Succeed(), name)
		found, waits := ArtifactOf(obj)
		if tc.want == "" {
			g.Expect(waits).To(HaveSuffix(tc.outdated), name)
			g.Expect(waits == "").To(Equal(tc.outdated == ""), name)
			g.Expect(found).To(Equal(&Artifact{URL: "http://sc/gitrepository/n/infra/1.tar.gz", Digest: "sha256:1", Revision: "main@sha1:1"}), name)
			continue
		}
		g.Expect(found).To(BeNil(), name)
		g.Expect(waits).To(And(HavePrefix("GitRepository n/infra "), ContainSubstring(tc.want)), name)
	}
}

func TestFetch_onlyWhatTheSourceProvides(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch {
		case strings.HasSuffix(r.URL.Path, "moved"):
			http.Redirect(w, r, "/gitrepository/n/infra/1", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "gone"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(r.URL.Path, "large"):
			_, _ = w.Write(make([]byte, 11))
		default:
			_, _ = w.Write(make([]byte, 10))
		}
	}))
	defer server.Close()
	f := &Fetcher{Hosts: []string{"source-controller.flux-system.svc.cluster.local.", strings.TrimPrefix(server.URL, "http://")}, Limit: 10}
	for name, tc := range map[string]struct {
		url, want string
		refused   bool
	}{
		"the artifact":           {url: server.URL + "/gitrepository/n/infra/1"},
		"another host":           {"http://169.254.169.254/gitrepository/n/infra/1", "not in the manager's list --artifact-hosts", true},
		"another port":           {"http://127.0.0.1:1/gitrepository/n/infra/1", "not in the manager's list --artifact-hosts", true},
		"another source":         {server.URL + "/gitrepository/n/infra2/1", "is not below /gitrepository/n/infra/", true},
		"another namespace":      {server.URL + "/gitrepository/other/infra/1", "is not below", true},
		"a path to another one":  {server.URL + "/gitrepository/n/infra/../other/1", "is not below", true},
		"an encoded path":        {server.URL + "/gitrepository/n/infra/%2e%2e/other/1", "is not below", true},
		"a query":                {server.URL + "/gitrepository/n/infra/1?x=1", "is not an address of source-controller", true},
		"a user":                 {strings.Replace(server.URL, "http://", "http://u:p@", 1) + "/gitrepository/n/infra/1", "is not an address of source-controller", true},
		"a file":                 {"file:///gitrepository/n/infra/1", "is not an address of source-controller", true},
		"a redirect":             {server.URL + "/gitrepository/n/infra/moved", "returned 302", false},
		"one that was deleted":   {server.URL + "/gitrepository/n/infra/gone", "returned 404", false},
		"one that is too large":  {server.URL + "/gitrepository/n/infra/large", "too large", false},
		"a server that is down":  {"http://source-controller.flux-system.svc.cluster.local/gitrepository/n/infra/1", "downloading the artifact", false},
		"no address of anything": {"://", "is not an address of source-controller", true},
	} {
		g, before := NewWithT(t), asked
		content, err := f.Fetch(t.Context(), "GitRepository", client.ObjectKey{Namespace: "n", Name: "infra"}, &Artifact{URL: tc.url})
		if tc.want == "" {
			g.Expect(err).NotTo(HaveOccurred(), name)
			g.Expect(content).To(HaveLen(10), name)
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
		if tc.refused {
			g.Expect(err).To(MatchError(ErrNotAllowed), name)
			g.Expect(asked).To(Equal(before), name)
		}
	}
}

// While source-controller does not answer, one of many workspaces waits for it, and not all
// that the manager could reconcile meanwhile.
func TestFetch_attemptsAHostThatIsDownOnceInAWhile(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	host := listener.Addr().String()
	// Connections are accepted by the kernel, and nothing answers.
	now := time.Now()
	f := &Fetcher{Hosts: []string{host}, Limit: 10, now: func() time.Time { return now }}
	fetch := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := f.Fetch(ctx, "Bucket", client.ObjectKey{Namespace: "n", Name: "b"}, &Artifact{URL: "http://" + host + "/bucket/n/b/1"})
		return err
	}
	first := fetch(10 * time.Millisecond)
	g.Expect(first).To(MatchError(context.DeadlineExceeded))
	// With no timeout of the caller, an attempt would take half a minute.
	g.Expect(fetch(time.Hour)).To(MatchError(first.Error()))

	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.Expect(fetch(time.Hour)).To(MatchError(first.Error()), "while another attempt is under way")
	})}}
	server.Start()
	defer server.Close()
	g.Expect(fetch(time.Hour)).To(MatchError(first.Error()))
	now = now.Add(retryInterval)
	g.Expect(fetch(time.Hour)).To(Succeed())
	g.Expect(f.failures).To(BeEmpty())
}
