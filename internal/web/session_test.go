package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestLink_worksOnce(t *testing.T) {
	t.Parallel()
	p := start(t, Options{Config: env.Config, Namespace: "default"})
	_, token, _ := strings.Cut(p.server.Link(time.Minute), "#token=")
	body := `{"token":"` + token + `"}`
	status, _ := p.send(http.MethodPost, sessionPath, body)
	p.Expect(status).To(Equal(http.StatusOK))
	status, answer := p.send(http.MethodPost, sessionPath, body)
	p.Expect(status).To(Equal(http.StatusUnauthorized))
	p.Expect(answer).To(ContainSubstring("The link was used before or has expired"))
}

func TestSessions_expire(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	s := newSessions()
	s.now = func() time.Time { return now }
	late := s.newLink(time.Minute)
	key, ok := s.open(s.newLink(time.Minute))
	g.Expect(ok).To(BeTrue())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer "+key)
	g.Expect(s.valid(r)).To(BeTrue())
	now = now.Add(2 * time.Minute)
	_, ok = s.open(late)
	g.Expect(ok).To(BeFalse())
	now = now.Add(sessionIdle - 3*time.Minute)
	g.Expect(s.valid(r)).To(BeTrue(), "in use")
	now = now.Add(sessionIdle + time.Second)
	g.Expect(s.valid(r)).To(BeFalse())
	now = now.Add(-sessionIdle)
	g.Expect(s.valid(r)).To(BeFalse(), "an ended session stays ended")
}
