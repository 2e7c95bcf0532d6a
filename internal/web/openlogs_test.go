package web

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOpenLogs_areLimitedByUserAndInTotal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	logs := newOpenLogs()
	first := &identity{}
	for range maxUserLogs {
		g.Expect(logs.acquire(first)).To(BeEmpty())
	}
	g.Expect(logs.acquire(first)).To(ContainSubstring("You have too many logs open"))
	for range maxLogs - maxUserLogs {
		g.Expect(logs.acquire(&identity{})).To(BeEmpty(), "others are not affected")
	}
	g.Expect(logs.acquire(&identity{})).To(ContainSubstring("Too many users have logs open"))
	logs.release(first)
	g.Expect(logs.acquire(first)).To(BeEmpty())
	for range maxUserLogs {
		logs.release(first)
	}
	_, known := logs.of[first]
	g.Expect(known).To(BeFalse())
}

func TestLog_isRefusedWhileTooManyAreOpen(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createPlan(t, namespace)
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	user, path := p.server.local.user, "/api/v1/workspaces/"+namespace+"/net/log"
	for range maxUserLogs {
		p.Expect(p.server.logs.acquire(user)).To(BeEmpty())
	}
	status, body := p.send(http.MethodGet, path, "")
	p.Expect(status).To(Equal(http.StatusTooManyRequests), body)
	p.Expect(body).To(ContainSubstring("close one in another tab"))
	p.server.logs.release(user)
	status, body = p.send(http.MethodGet, path, "")
	p.Expect(status).NotTo(Equal(http.StatusTooManyRequests), body)
	p.Expect(p.server.logs.all).To(Equal(maxUserLogs-1), "a log that ends makes room")
}
