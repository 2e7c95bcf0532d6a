package ui

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// requests counts the requests to the API server, and those that are not answered
// completely, which watches are.
type requests struct {
	next          http.RoundTripper
	sent, unended *atomic.Int64
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent.Add(1)
	response, err := r.next.RoundTrip(request)
	if err == nil {
		r.unended.Add(1)
		response.Body = &countedBody{ReadCloser: response.Body, unended: r.unended}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	unended *atomic.Int64
	closed  atomic.Bool
}

func (b *countedBody) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.unended.Add(-1)
	}
	return b.ReadCloser.Close()
}

func TestTab_hiddenCostsNothing(t *testing.T) {
	var sent, unended atomic.Int64
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{next, &sent, &unended} })
	b := open(t, serve(t, config, "default"))
	b.shows("production")
	b.Expect(unended.Load()).To(BeNumerically(">", 5), "watches of a visible tab")
	other, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewWindow(false))
	defer cancel()
	b.Expect(chromedp.Do(other, chromedp.Navigate("about:blank"))).To(Succeed())
	b.Expect(chromedp.Call(other, page.BringToFront, cdp.Empty{})).Error().NotTo(HaveOccurred())
	b.Eventually(func() bool { return value[bool](b, "document.hidden") }, timeout).Should(BeTrue())
	b.Eventually(unended.Load, 2*timeout).Should(BeZero(), "watches of a hidden tab")
	before := sent.Load()
	// Nothing shows that a hidden tab has decided to send nothing.
	b.Consistently(sent.Load, "5s").Should(Equal(before), "requests of a hidden tab")
	cancel()
	b.Expect(chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{})).Error().NotTo(HaveOccurred())
	b.Eventually(unended.Load, timeout).Should(BeNumerically(">", 5), "watches of a tab that is shown again")
}
