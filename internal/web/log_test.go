package web

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLog_isRefusedWhileTooManyAreOpen(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createPlan(t, namespace)
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	user, path := p.server.local.user, "/api/v1/workspaces/"+namespace+"/net/log"
	p.Expect(user.logs.TryAcquire(maxUserLogs)).To(BeTrue())
	status, body := p.send(http.MethodGet, path, "")
	p.Expect(status).To(Equal(http.StatusTooManyRequests), body)
	p.Expect(body).To(ContainSubstring("You have too many logs open: close one in another tab"))
	user.logs.Release(maxUserLogs)
	p.Expect(p.server.logs.TryAcquire(maxLogs)).To(BeTrue())
	status, body = p.send(http.MethodGet, path, "")
	p.Expect(status).To(Equal(http.StatusTooManyRequests), body)
	p.Expect(body).To(ContainSubstring("Too many users have logs open"))
	p.server.logs.Release(maxLogs)
	status, body = p.send(http.MethodGet, path, "")
	p.Expect(status).NotTo(Equal(http.StatusTooManyRequests), body)
	p.Expect(user.logs.TryAcquire(maxUserLogs)).To(BeTrue(), "a log that ends makes room")
	p.Expect(p.server.logs.TryAcquire(maxLogs)).To(BeTrue(), "a log that ends makes room")
}
