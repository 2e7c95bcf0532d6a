package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// crowd adds sessions to logins.
type crowd struct {
	*WithT
	*logins
	t   *testing.T
	now time.Time
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{WithT: NewWithT(t), t: t, now: time.Now()}
	c.logins = newLogins(ClusterOptions{Config: env.Config, Idle: time.Hour, Lifetime: 3 * time.Hour})
	c.logins.now = func() time.Time { return c.now }
	t.Cleanup(c.stop)
	return c
}

// enter adds a session of an owner a second later. It returns its cookie and why there is no room.
func (c *crowd) enter(owner string) (*userSession, string, error) {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	cookie := fmt.Sprint(c.now)
	user, err := newIdentity(Options{Config: env.Config})
	c.Expect(err).NotTo(HaveOccurred())
	session := &userSession{identity: user, id: hashOf(cookie), owner: owner, used: c.now, ends: c.now.Add(c.options.Lifetime)}
	session.ctx, session.cancel = context.WithCancel(c.t.Context())
	return session, cookie, c.add(session)
}

// mustEnter adds a session for which there is room.
func (c *crowd) mustEnter(owner string) (*userSession, string) {
	c.t.Helper()
	session, cookie, err := c.enter(owner)
	c.Expect(err).NotTo(HaveOccurred())
	return session, cookie
}

func TestLogins_oneUserDoesNotLogOthersOut(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	anna, _ := c.mustEnter("anna")
	for range 2 * maxUserSessions {
		mallory, _ := c.mustEnter("mallory")
		c.use(mallory)
	}
	c.Expect(c.sessions).To(HaveLen(maxUserSessions))
	ben, _ := c.mustEnter("ben")
	c.Expect(anna.ctx.Err()).NotTo(HaveOccurred())
	c.Expect(ben.ctx.Err()).NotTo(HaveOccurred())
}

func TestLogins_areBoundedAtATime(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.Expect(c.slots.TryAcquire(maxLogins)).To(BeTrue())
	_, _, err := c.open(t.Context(), "token")
	c.Expect(err).To(MatchError(errLogins))
}

func TestCluster_aLoginReplacesTheSessionOfTheBrowser(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := startCluster(t, ClusterOptions{Config: trusting(t, p), OIDC: &OIDC{Issuer: p.URL, ClientID: "capt", Client: p.Client()}})
	anna := s.visitor()
	anna.loginAt(p, "/")
	s.Expect(s.logins().sessions).To(HaveLen(1))
	// Browsers do not send the cookie of the session when the provider leads back.
	response, _ := anna.ask(http.MethodGet, loginPath, "", withoutOrigin)
	back := anna.authorize(p, response.Header.Get("Location"))
	address, err := url.Parse(s.base)
	s.Expect(err).NotTo(HaveOccurred())
	for _, cookie := range anna.client.Jar.Cookies(address) {
		if cookie.Name == sessionCookie {
			anna.client.Jar.SetCookies(address, []*http.Cookie{{Name: sessionCookie, Path: "/", MaxAge: -1, Secure: true}})
		}
	}
	anna.ask(http.MethodGet, back, "", withoutOrigin)
	s.Expect(s.logins().sessions).To(HaveLen(1))
}

// No client can use up logins that were started.
func TestOIDC_startedLoginsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := startCluster(t, ClusterOptions{Config: trusting(t, p), OIDC: &OIDC{Issuer: p.URL, ClientID: "capt", Client: p.Client()}})
	anna := s.visitor()
	response, _ := anna.ask(http.MethodGet, loginPath+"?to=/events", "", withoutOrigin)
	back := anna.authorize(p, response.Header.Get("Location"))
	other := s.visitor()
	for range 1100 {
		response, _ := other.ask(http.MethodGet, loginPath, "", withoutOrigin)
		s.Expect(response.Header.Get("Location")).To(HavePrefix(p.URL))
	}
	response, _ = anna.ask(http.MethodGet, callbackPath+"?state=x", "", withoutOrigin)
	s.Expect(response.Header.Get("Location")).To(Equal("/#login=failed"))
	response, _ = anna.ask(http.MethodGet, back, "", withoutOrigin)
	s.Expect(response.Header.Get("Location")).To(Equal("/events"), "a link of another site does not end the login")
}

func TestOIDC_waitsForTheProviderOnlyAsLongAsItsClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := (&oidcLogin{options: OIDC{Issuer: "https://id.example.com"}}).begin(ctx, "/", nil)
	NewWithT(t).Expect(err).To(MatchError(context.Canceled))
}

func TestOIDC_aLoginNeedsItsState(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cookie := encodePart(pendingLogin{State: "s", To: "/events"})
	login, err := take("s", cookie)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(login.To).To(Equal("/events"))
	for _, wrong := range [][2]string{{"other", cookie}, {"s", cookie + "x"}, {"s", ""}, {"", encodePart(pendingLogin{})}} {
		_, err := take(wrong[0], wrong[1])
		g.Expect(err).To(HaveOccurred(), "%q", wrong)
	}
}

func TestCluster_normalisesItsHost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, origin := range []string{"https://Capt.Example.com", "https://capt.example.com:443/"} {
		s, err := NewCluster(ClusterOptions{Config: env.Config, Origin: origin})
		g.Expect(err).NotTo(HaveOccurred())
		for _, host := range []string{"capt.example.com", "capt.example.com:443", "CAPT.example.com"} {
			g.Expect(s.access.host(&http.Request{Host: host})).To(BeTrue(), host)
		}
		g.Expect(s.access.host(&http.Request{Host: "capt.example.com:8443"})).To(BeFalse())
		g.Expect(s.access.origin(nil, "https://capt.example.com")).To(BeTrue())
	}
	for _, origin := range []string{"https://user@capt.example.com", "https://capt.example.com?x=1", "https://capt.example.com#x"} {
		_, err := NewCluster(ClusterOptions{Config: env.Config, Origin: origin})
		g.Expect(err).To(HaveOccurred(), origin)
	}
}

func TestCluster_endsRequestsWhoseBodyDoesNotArrive(t *testing.T) {
	t.Parallel()
	s := startCluster(t, ClusterOptions{Config: env.Config})
	s.server.bodyTimeout = 100 * time.Millisecond
	for _, body := range []string{"{", `{"token":""}`} {
		host := strings.TrimPrefix(s.base, "https://")
		connection, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", host)
		s.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = connection.Close() })
		_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n%s", sessionPath, host, body)
		s.Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, bufio.NewReader(connection))
			ended <- err
		}()
		s.Eventually(ended).Should(Receive(), body)
	}
}
