package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// countingTransport counts requests, and the watches that are open.
type countingTransport struct {
	next           http.RoundTripper
	count, watches *atomic.Int64
}

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	response, err := c.next.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") {
		c.watches.Add(1)
		response.Body = &countedBody{ReadCloser: response.Body, closed: func() { c.watches.Add(-1) }}
	}
	return response, err
}

// countedBody is the body of a watch, which is open until it is closed.
type countedBody struct {
	io.ReadCloser

	once   sync.Once
	closed func()
}

func (b *countedBody) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}

func TestWatch_sendsNoRequestsAtRest(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	var count, watches atomic.Int64
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, &count, &watches} })
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true}, func(s *Server) { s.local.user.watch.idleAfter = 10 * time.Millisecond })
	first := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(first.rows).Should(HaveLen(1))
	// The reflectors open their watches after the lists, as their last requests. On a busy
	// machine they may have been idle and begun again, so open ones are counted.
	p.Eventually(watches.Load).Should(BeEquivalentTo(len(kinds())))
	settled := count.Load()
	second := p.stream("/api/v1/stream?view=cluster/" + namespace + "/demo")
	p.Eventually(second.all).Should(ContainSubstring("synced"))
	// Only time can show that nothing polls.
	p.Consistently(count.Load, 5*time.Second).Should(Equal(settled), "tabs share watches, and nothing polls")

	// Without a stream the watches end.
	first.cancel()
	second.cancel()
	p.Eventually(func() bool {
		p.server.local.user.watch.mu.Lock()
		defer p.server.local.user.watch.mu.Unlock()
		return p.server.local.user.watch.cancel == nil
	}).Should(BeTrue())
}

// The reflector of client-go reports nothing while connections are refused.
func TestRefusals_areReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	var reported []error
	c := &http.Client{Transport: refusals{http.DefaultTransport, func(err error) { reported = append(reported, err) }}}
	get := func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		g.Expect(err).NotTo(HaveOccurred())
		if response, err := c.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
	get()
	g.Expect(reported).To(BeEmpty())
	server.Close()
	get()
	g.Expect(reported).To(HaveLen(1))
}
