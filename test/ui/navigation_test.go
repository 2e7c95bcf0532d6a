package ui

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestPlan_isLoadedAgain(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.script(`{
		const send = fetch;
		let cut = false;
		window.fetch = (path, init) => (String(path).endsWith("/plan") && !cut ? ((cut = true), Promise.reject(new TypeError("network"))) : send(path, init));
	}`)
	b.goTo("/workspaces/team-a/staging-vpc")
	b.shows("module.network.aws_route_table.private")
}

func TestFleet_returnsToItsPlace(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.size(390, 400)
	b.script(`scrollTo(0, 300)`)
	b.Eventually(func() int { return value[int](b, "scrollY") }, timeout).Should(Equal(300))
	b.script(`[...document.querySelectorAll("a.fleet-row")].at(-1).click()`)
	b.shows("Timeline")
	b.Expect(value[int](b, "scrollY")).To(BeZero())
	b.script("history.back()")
	b.Eventually(func() int { return value[int](b, "scrollY") }, timeout).Should(Equal(300))
	b.Expect(value[string](b, "document.activeElement.tagName")).To(Equal("H1"), "the focus of the keyboard")
}
