package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
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

func TestWatch_noticesWhetherTheManagementClusterResponds(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createCluster(t, namespace, "demo")
	var refused atomic.Bool
	ctx, cut := context.WithCancel(t.Context())
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next, &refused, ctx} })
	p := start(t, Options{Config: config, Namespace: namespace, OnlyNamespace: true})
	s := p.stream("/api/v1/stream?view=fleet")
	p.Eventually(s.rows).Should(HaveLen(1))
	refused.Store(true)
	cut()
	p.Eventually(func() string { return s.session().Lost }).Should(ContainSubstring("connection refused"))
	refused.Store(false)
	p.Eventually(func() string { return s.session().Lost }).Should(BeEmpty())
	createCluster(t, namespace, "later")
	p.Eventually(s.rows).Should(HaveLen(2))
}

// refusing refuses connections, and ends the watches that were opened before with its context.
type refusing struct {
	next    http.RoundTripper
	refused *atomic.Bool
	ctx     context.Context
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.refused.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	response, err := r.next.RoundTrip(request)
	if err == nil && r.ctx.Err() == nil && request.URL.Query().Has("watch") {
		context.AfterFunc(r.ctx, func() { _ = response.Body.Close() })
	}
	return response, err
}
