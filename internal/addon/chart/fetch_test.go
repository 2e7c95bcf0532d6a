package chart_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// repository serves a Helm repository with one chart.
func repository(t *testing.T, digest string) *httptest.Server {
	t.Helper()
	packed := anchor().archive()
	if digest == "" {
		sum := sha256.Sum256(packed)
		digest = hex.EncodeToString(sum[:])
	}
	served := http.NewServeMux()
	served.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "apiVersion: v1\nentries:\n  anchor:\n  - {version: 1.2.3, digest: %s, urls: [files/anchor-1.2.3.tgz]}\n", digest)
	})
	served.HandleFunc("/charts/files/anchor-1.2.3.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) })
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	return server
}

// push uploads a chart to a registry.
func push(t *testing.T, address, tag, layerType string) {
	t.Helper()
	g := NewWithT(t)
	target, err := remote.NewRepository(address + "/charts/anchor")
	g.Expect(err).NotTo(HaveOccurred())
	target.PlainHTTP = true
	layer, err := oras.PushBytes(t.Context(), target, layerType, anchor().archive())
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := oras.PackManifest(t.Context(), target, oras.PackManifestVersion1_1,
		"application/vnd.cncf.helm.config.v1+json", oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Tag(t.Context(), manifest, tag)).To(Succeed())
}

func TestFetch_supportsHelmRepositories(t *testing.T) {
	g := NewWithT(t)
	server := repository(t, "")

	c, err := chart.Fetcher{}.Fetch(t.Context(), server.URL+"/charts/", "anchor", "v1.2.3", false)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(check(c, "settings.clusterName")).To(Succeed())
	g.Expect(check(c, "settings.clusterNam")).To(MatchError(ContainSubstring("anchor v1.2.3")))
}

func TestFetch_supportsRegistries(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	push(t, address, "1.2.3_build.1", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
	push(t, address, "2.0.0", "application/octet-stream")

	c, err := chart.Fetcher{}.Fetch(t.Context(), "oci://"+address+"/charts", "anchor", "1.2.3+build.1", true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Values).To(HaveKey("settings"))

	_, err = chart.Fetcher{}.Fetch(t.Context(), "oci://"+address+"/charts", "anchor", "9.9.9", true)
	g.Expect(err).To(MatchError(ContainSubstring("fetching chart anchor 9.9.9 from oci://" + address + "/charts: the registry has no version 9.9.9")))

	_, err = chart.Fetcher{}.Fetch(t.Context(), "oci://"+address+"/charts", "anchor", "2.0.0", true)
	g.Expect(err).To(MatchError(ContainSubstring("is not a Helm chart")))

	_, err = chart.Fetcher{}.Fetch(t.Context(), "oci://"+address+"/charts", "anchor", "2.0.0", false)
	g.Expect(err).To(MatchError(ContainSubstring("server gave HTTP response to HTTPS client")), "plain HTTP requires insecure")
}

func TestFetch_reportsTheContentOfTheRepository(t *testing.T) {
	server := repository(t, "")
	tests := map[string]struct{ repository, name, version, want string }{
		"a chart":      {server.URL + "/charts", "ancor", "1.2.3", "the repository has no chart ancor: did you mean anchor?"},
		"a version":    {server.URL + "/charts", "anchor", "9.0.0", "the repository has no version 9.0.0: it has 1.2.3"},
		"no index":     {server.URL + "/elsewhere", "anchor", "1.2.3", "/elsewhere/index.yaml returned 404 Not Found"},
		"other scheme": {"s3://bucket", "anchor", "1.2.3", "the repository must start with oci://, https:// or http://"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := chart.Fetcher{}.Fetch(t.Context(), test.repository, test.name, test.version, false)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestFetch_verifiesTheDigest(t *testing.T) {
	server := repository(t, strings.Repeat("0", 64))
	_, err := chart.Fetcher{}.Fetch(t.Context(), server.URL+"/charts", "anchor", "1.2.3", false)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the digest of the archive differs")))
}

func TestCache_keepsChartsAndExpiresFailures(t *testing.T) {
	g := NewWithT(t)
	behind := repository(t, "")
	var requests, broken atomic.Int32
	broken.Store(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if broken.Load() == 1 {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		behind.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	cache := chart.NewCache(chart.Fetcher{}, clock)
	fetch := func() error {
		_, err := cache.Fetch(t.Context(), server.URL+"/charts", "anchor", "1.2.3", false)
		return err
	}

	g.Expect(fetch()).To(MatchError(ContainSubstring("503")))
	broken.Store(0)
	g.Expect(fetch()).To(MatchError(ContainSubstring("503")), "the failure is cached")
	g.Expect(requests.Load()).To(BeEquivalentTo(1))

	clock.SetTime(clock.Now().Add(6 * time.Minute))
	g.Expect(fetch()).To(Succeed())
	g.Expect(requests.Load()).To(BeEquivalentTo(3))
	clock.SetTime(clock.Now().Add(365 * 24 * time.Hour))
	broken.Store(1)
	g.Expect(fetch()).To(Succeed(), "a version never changes")
	g.Expect(requests.Load()).To(BeEquivalentTo(3))
}

func TestCache_sharesOneFetchThatOutlivesTheFirstCaller(t *testing.T) {
	g := NewWithT(t)
	behind := repository(t, "")
	var requests atomic.Int32
	asked, release := make(chan struct{}, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		asked <- struct{}{}
		<-release
		behind.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	cache := chart.NewCache(chart.Fetcher{}, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	ask := func(ctx context.Context, result chan error) {
		_, err := cache.Fetch(ctx, server.URL+"/charts", "anchor", "1.2.3", false)
		result <- err
	}

	go ask(ctx, first)
	<-asked
	cancel()
	g.Expect(<-first).To(MatchError(context.Canceled))
	go ask(t.Context(), second)
	close(release)

	g.Expect(<-second).To(Succeed())
	g.Expect(requests.Load()).To(BeEquivalentTo(2), "one index and one archive")
}

// A user who writes an add-on names the repository.
func TestFetch_reachesNothingThatThePolicyDenies(t *testing.T) {
	server := repository(t, "")
	redirects := httptest.NewServer(http.RedirectHandler(server.URL+"/charts/index.yaml", http.StatusFound))
	t.Cleanup(redirects.Close)
	_, redirectPort, _ := strings.Cut(strings.TrimPrefix(redirects.URL, "http://"), ":")
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	realm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token",service="r"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(realm.Close)
	_, realmPort, _ := strings.Cut(strings.TrimPrefix(realm.URL, "http://"), ":")
	for name, test := range map[string]struct {
		repository string
		hosts      []string
	}{
		"address":       {server.URL + "/charts", nil},
		"name":          {"http://localhost:" + port + "/charts", nil},
		"registry":      {"oci://127.0.0.1:" + port + "/charts", nil},
		"redirect":      {"http://localhost:" + redirectPort, []string{"localhost", "*"}},
		"realm":         {"oci://localhost:" + realmPort + "/charts", []string{"localhost", "*"}},
		"another host":  {"http://localhost:" + port + "/charts", []string{"ghcr.io"}},
		"metadata":      {"http://169.254.169.254/latest", nil},
		"its IPv6 form": {"http://[::ffff:a9fe:a9fe]/latest", nil},
	} {
		t.Run(name, func(t *testing.T) {
			fetcher := chart.Fetcher{Policy: &dial.Policy{Hosts: test.hosts}, Timeout: waits.Timeout}
			_, err := fetcher.Fetch(t.Context(), test.repository, "anchor", "1.2.3", true)
			// The client of registries refuses some realms itself.
			NewWithT(t).Expect(err).To(Or(MatchError(dial.ErrDenied), MatchError(ContainSubstring("bearer realm host"))))
		})
	}
	t.Run("an allowed host", func(t *testing.T) {
		fetcher := chart.Fetcher{Policy: &dial.Policy{Hosts: []string{"localhost"}}}
		_, err := fetcher.Fetch(t.Context(), "http://localhost:"+port+"/charts", "anchor", "1.2.3", false)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
}

func TestCache_slowRepositoryBlocksNobody(t *testing.T) {
	g := NewWithT(t)
	fast := repository(t, "")
	asked, release := make(chan struct{}, 8), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(slow.Close)
	cache := chart.NewCache(chart.Fetcher{}, clock.RealClock{})
	ended := make(chan error, 1)
	go func() {
		_, err := cache.FetchFor(t.Context(), "slow", slow.URL, "anchor", "1.2.3", false)
		ended <- err
	}()
	<-asked
	_, err := cache.FetchFor(t.Context(), "fast", fast.URL+"/charts", "anchor", "1.2.3", false)
	g.Expect(err).NotTo(HaveOccurred(), "the slow fetch has not ended")
	close(release)
	g.Expect(<-ended).To(HaveOccurred())
}

// A tenant who asks for many charts must not fill the memory.
func TestCache_isBounded(t *testing.T) {
	g := NewWithT(t)
	requests := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests[r.URL.Path]++
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	cache := chart.NewCache(chart.Fetcher{}, clock.RealClock{})
	fetch := func(repository int) {
		_, err := cache.FetchFor(t.Context(), "tenant", fmt.Sprintf("%s/%d", server.URL, repository), "anchor", "1.2.3", false)
		g.Expect(err).To(MatchError(ContainSubstring("404")))
	}
	for i := range 17 {
		fetch(i)
	}
	fetch(16)
	fetch(0)
	g.Expect(requests["/16/index.yaml"]).To(Equal(1), "the newest is kept")
	g.Expect(requests["/0/index.yaml"]).To(Equal(2), "17 charts are more than the cache keeps")
}
