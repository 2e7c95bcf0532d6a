package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/web"
)

// browser is a tab.
type browser struct {
	*WithT
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// serve serves the page with a configuration and returns a one-time link.
func serve(t *testing.T, config *rest.Config, namespace string) string {
	t.Helper()
	link, _ := serveAt(t, config, namespace, "127.0.0.1:0")
	return link
}

// serveAt serves the page at an address until stop is called or the test ends.
func serveAt(t *testing.T, config *rest.Config, namespace, address string) (link string, stop func()) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(fleet()).To(Succeed())
	server, err := web.New(web.Options{Config: config, Context: "management", Namespace: namespace})
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp4", address)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	g.Expect(server.Listen(listener)).To(Succeed())
	go func() { served <- server.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		g.Expect(<-served).To(Succeed())
	})
	t.Cleanup(stop)
	return server.Link(time.Hour), stop
}

// open opens a link in a new browser.
func open(t *testing.T, link string) *browser {
	t.Helper()
	path := os.Getenv("CHROME")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			t.Fatal("Chromium is not installed: run apt-get install chromium, or set CHROME")
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.WindowSize(1280, 800))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	ctx, expire := context.WithTimeout(ctx, 30*time.Minute)
	b := &browser{WithT: NewWithT(t), t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go b.listen(messages)
	t.Cleanup(func() {
		expire()
		cancel()
		stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Expect(b.problems).To(BeEmpty(), "errors in the console")
	})
	b.run(chromedp.Navigate(link))
	return b
}

// listen collects errors of the page: exceptions, failed requests and violations of
// the content security policy.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			return
		}
		if message.Type != chromedp.ConsoleError && message.Type != chromedp.ConsoleException {
			continue
		}
		if strings.Contains(message.Text, "net::ERR_NETWORK_CHANGED") {
			// An interface of this machine was added or removed; the page tries again.
			continue
		}
		b.mu.Lock()
		b.problems = append(b.problems, message.Text+" "+message.URL)
		b.mu.Unlock()
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.Expect(chromedp.Do(b.ctx, actions...)).To(Succeed())
}

// script runs a statement in the page.
func (b *browser) script(text string) {
	b.t.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](text))
}

// text returns the visible text of the page.
func (b *browser) text() string {
	return value[string](b, `document.body?.innerText ?? ""`)
}

// value returns the result of an expression.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	for err != nil && b.ctx.Err() == nil && strings.Contains(err.Error(), "navigated or closed") {
		// The page is being loaded again.
		result, err = chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	}
	b.Expect(err).NotTo(HaveOccurred())
	return result
}

func (b *browser) shows(text string) {
	b.t.Helper()
	b.Eventually(b.text, timeout, 100*time.Millisecond).Should(ContainSubstring(text))
}

// goTo opens a page by the router, as a link does.
func (b *browser) goTo(path string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`history.pushState(null, "", %q); dispatchEvent(new PopStateEvent("popstate"))`, path))
}

func (b *browser) size(width, height int64) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(width, height))
}

// screenshot writes an image of the whole page.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(os.WriteFile(filepath.Join(images, name+".png"), image, 0o644)).To(Succeed())
}

// fits checks that the page does not scroll sideways.
func (b *browser) fits(name string) {
	b.t.Helper()
	width := value[int](b, "innerWidth")
	b.Expect(value[int](b, "document.documentElement.scrollWidth")).To(BeNumerically("<=", width), "width of %s", name)
}

// violations returns what axe finds.
func (b *browser) violations() []string {
	b.t.Helper()
	b.script(axe + "; undefined")
	result := value[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + " " + n.failureSummary))))`)
	var found []string
	b.Expect(json.Unmarshal([]byte(result), &found)).To(Succeed())
	return found
}

// press presses keys one after the other.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

// ignoreProblems forgets the errors of the console that a test expects.
func (b *browser) ignoreProblems() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil
}
