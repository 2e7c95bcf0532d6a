package ui

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/web"
)

// serveCluster serves the page to the users of the management cluster, and returns its
// address.
func serveCluster(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	g.Expect(fleet()).To(Succeed())
	template := httptest.NewTLSServer(http.NotFoundHandler())
	certificates := template.TLS.Certificates
	template.Close()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	origin := "https://" + listener.Addr().String()
	server, err := web.NewCluster(web.ClusterOptions{Config: env.Config, Context: "management", Origin: origin, Idle: time.Hour, Lifetime: time.Hour})
	g.Expect(err).NotTo(HaveOccurred())
	server.ListenCluster(listener, &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-served).To(Succeed())
	})
	return origin
}

// submit sends a form, until the page shows a text. Chromium gives up requests when an
// interface of this machine is added or removed.
func (b *browser) submit(text string) {
	b.t.Helper()
	b.press(kb.Enter)
	b.Eventually(func() string {
		shown := b.text()
		if strings.Contains(shown, "Failed to fetch") {
			b.press(kb.Enter)
		}
		return shown
	}, timeout, time.Second).Should(ContainSubstring(text))
}

func TestCluster_usersLogIn(t *testing.T) {
	g := NewWithT(t)
	origin := serveCluster(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "anna"}}
	g.Expect(env.Client.Create(t.Context(), account)).To(Succeed())
	bind(t, "system:serviceaccount:team-a:anna", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}})
	request := &authenticationv1.TokenRequest{}
	g.Expect(env.Client.SubResource("token").Create(t.Context(), account, request)).To(Succeed())

	b := open(t, origin+"/clusters/team-a/staging")
	b.shows("Token of the management cluster")
	b.Expect(chromedp.Call(b.ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})).Error().NotTo(HaveOccurred())
	for _, width := range []int64{390, 1280} {
		b.size(width, 800)
		b.screenshot(fmt.Sprintf("token-%d-light", width))
		b.Expect(b.violations()).To(BeEmpty())
	}
	b.script(`document.querySelector("input[type=password]").focus()`)
	b.run(chromedp.KeyEvent("wrong"))
	b.submit("The management cluster does not accept this token")
	b.script(`document.querySelector("input[type=password]").select()`)
	b.run(chromedp.KeyEvent(request.Status.Token))
	b.submit("Waits for you")
	b.Expect(value[string](b, "location.pathname")).To(Equal("/clusters/team-a/staging"), "the page that was opened")
	b.shows("system:serviceaccount:team-a:anna")
	b.Expect(value[string](b, "document.cookie")).To(BeEmpty(), "no script reads the cookie")
	b.Expect(value[int](b, "sessionStorage.length")).To(BeZero())
	b.screenshot("cluster-user-1280-light")
	b.size(390, 844)
	b.fits("the page of a user")
	b.screenshot("cluster-user-390-light")
	b.size(1280, 800)
	b.run(chromedp.Reload())
	b.shows("Waits for you")
	b.script(`[...document.querySelectorAll("button")].find(b => b.textContent === "Log out").click()`)
	b.shows("Token of the management cluster")
	// The browser reports the login that was refused.
	b.ignoreProblems()
	b.Expect(strings.HasPrefix(value[string](b, "location.href"), origin)).To(BeTrue())
}
