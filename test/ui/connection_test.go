package ui

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// gate is a network that can be cut.
type gate struct {
	mu          sync.Mutex
	cut         bool
	connections []net.Conn
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		return nil, errors.New("network is cut")
	}
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		g.connections = append(g.connections, connection)
	}
	return connection, err
}

func (g *gate) set(cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cut
	if cut {
		for _, connection := range g.connections {
			_ = connection.Close()
		}
		g.connections = nil
	}
}

func TestConnection_recovers(t *testing.T) {
	network := &gate{}
	config := rest.CopyConfig(env.Config)
	config.Dial = network.dial
	b := open(t, serve(t, config, "default"))
	b.shows("production")
	network.set(true)
	b.shows("The management cluster is unreachable:")
	b.shows("production")
	b.screenshot("lost-1280-light")
	network.set(false)
	b.Eventually(b.text, timeout).ShouldNot(ContainSubstring("The management cluster is unreachable:"))
}

func TestLink_isUsedOnce(t *testing.T) {
	link := serve(t, env.Config, "default")
	first := open(t, link)
	first.shows("production")
	second := open(t, link)
	second.shows("The link was used before or has expired: open a new link of captctl ui.")
	second.screenshot("login-1280-light")
	second.ignoreProblems()
	// Another tab of the same browser shares the session.
	tab, cancel := chromedp.NewContext(first.ctx)
	defer cancel()
	base, _, _ := strings.Cut(link, "#")
	first.Expect(chromedp.Do(tab, chromedp.Navigate(base+"events"), chromedp.WaitVisible("ul.events"))).To(Succeed())
	first.Expect(chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))).To(ContainSubstring("RunFailed"))
}

// A browser has six connections to captctl ui for all its tabs.
func TestTabs_manyLeaveConnectionsForRequests(t *testing.T) {
	link := serve(t, env.Config, "default")
	first := open(t, link)
	first.shows("production")
	base, _, _ := strings.Cut(link, "#")
	tabs := []*browser{first}
	for range 7 {
		ctx, cancel := chromedp.NewContext(first.ctx)
		t.Cleanup(cancel)
		tab := &browser{WithT: first.WithT, t: t, ctx: ctx}
		// A tab that is not in front is hidden, and has no streams. These stay visible.
		tab.run(chromedp.Navigate("about:blank"))
		tab.Expect(chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})).Error().NotTo(HaveOccurred())
		tab.run(chromedp.Navigate(base + "workspaces/team-b/new-eks"))
		tabs = append(tabs, tab)
	}
	last := tabs[len(tabs)-1]
	last.shows("Too many tabs of this page are visible")
	last.Expect(value[int](last, `fetch("/api/v1/workspaces/team-b/new-eks/can", {headers: {Authorization: "Bearer " + sessionStorage.getItem("capt-session")}, signal: AbortSignal.timeout(60000)}).then(r => r.status)`)).To(Equal(200))
	for _, tab := range tabs[:len(tabs)-1] {
		tab.run(chromedp.Navigate("about:blank"))
	}
	last.shows("Still creating")
	last.Expect(last.text()).NotTo(ContainSubstring("Too many tabs of this page are visible"))
}

func TestSession_endsWithoutLosingThePage(t *testing.T) {
	link, stop := serveAt(t, env.Config, "default", "127.0.0.1:0")
	address := strings.TrimPrefix(strings.SplitN(link, "/#", 2)[0], "http://")
	b := open(t, link)
	b.shows("production")
	b.goTo("/workspaces/team-a/staging-vpc")
	reject := `[...document.querySelectorAll("button")].find(b => b.textContent === "Reject")`
	b.Eventually(func() bool { return value[bool](b, reject+"?.disabled === false") }, timeout).Should(BeTrue())
	b.script(reject + ".click()")
	b.shows("Reject the plan of staging-vpc?")
	b.script(`document.querySelector("dialog input").focus()`)
	b.run(chromedp.KeyEvent("Not this week"))

	stop()
	b.shows("Connection to captctl lost: trying again.")
	b.screenshot("stopped-1280-light")
	link, _ = serveAt(t, env.Config, "default", address)
	b.shows("Your session has ended")
	b.screenshot("ended-1280-light")
	b.size(390, 844)
	b.screenshot("ended-390-light")
	b.size(1280, 800)
	b.script(`document.querySelector("dialog form input").focus()`)
	b.run(chromedp.KeyEvent(link))
	b.press(kb.Enter)
	b.Eventually(b.text, timeout).ShouldNot(ContainSubstring("Your session has ended"))
	b.shows("Reject the plan of staging-vpc?")
	b.Expect(value[string](b, `document.querySelector("dialog input").value`)).To(Equal("Not this week"))
	b.Expect(value[string](b, "location.pathname")).To(Equal("/workspaces/team-a/staging-vpc"))
	b.ignoreProblems()
}
