package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPolicy_deniesAddressesThatOnlyTheManagerReaches(t *testing.T) {
	for _, address := range []string{
		"127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.170.2", "169.254.170.23", "224.0.0.1", "255.255.255.255",
		"::1", "::", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2002:7f00:1::",
		"10.96.0.1",
	} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			p := &Policy{Denied: prefixes("10.96.0.0/12")}
			g.Expect(p.Check(netip.MustParseAddr(address))).To(MatchError(ErrDenied))
			g.Expect((*Policy)(nil).Check(netip.MustParseAddr(address))).To(Succeed())
		})
	}
	for _, address := range []string{"10.0.0.1", "192.168.1.1", "52.95.110.1", "2600:1f00::1", "fd00::1", "64:ff9b::3460:1"} {
		NewWithT(t).Expect((&Policy{}).Check(netip.MustParseAddr(address))).To(Succeed(), address)
	}
}

func TestPolicy_allowsWhatIsAllowedExplicitly(t *testing.T) {
	g := NewWithT(t)
	p := &Policy{Allowed: prefixes("127.0.0.0/8", "::1/128", "10.1.0.0/16"), Denied: prefixes("10.0.0.0/8")}
	for address, allowed := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "::1": true, "10.1.2.3": true, "10.2.2.3": false, "169.254.169.254": false} {
		err := p.Check(netip.MustParseAddr(address))
		g.Expect(err == nil).To(Equal(allowed), address)
	}
}

// server returns a server on loopback, which stands for a service that only the manager
// reaches.
func server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, p *Policy, address string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: p.Transport(http.DefaultTransport.(*http.Transport))}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestDial_checksTheAddressOfTheConnection(t *testing.T) {
	secret := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "credentials") })
	port := secret.URL[strings.LastIndex(secret.URL, ":")+1:]
	for name, host := range map[string]string{
		"address": "127.0.0.1", "name": "localhost", "mapped": "[::ffff:127.0.0.1]", "short": "127.1", "decimal": "2130706433", "hexadecimal": "0x7f000001", "zero": "0.0.0.0",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := get(t, &Policy{}, "http://"+host+":"+port+"/")
			g.Expect(err).To(HaveOccurred())
			// The resolver of this machine may not know the unusual spellings.
			var unknown *net.DNSError
			g.Expect(errors.Is(err, ErrDenied) || errors.As(err, &unknown)).To(BeTrue(), "%v", err)
		})
	}
	g := NewWithT(t)
	g.Expect(get(t, &Policy{Allowed: prefixes("127.0.0.0/8")}, secret.URL)).To(Equal("credentials"))
	g.Expect(get(t, nil, secret.URL)).To(Equal("credentials"))
}

// A name that has a public address when it is checked, and loopback when the connection
// is made, is denied: only the address of the connection counts.
func TestDial_isNotDeceivedByRebinding(t *testing.T) {
	g := NewWithT(t)
	secret := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "credentials") })
	names := startDNS(t)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, names)
	}}
	previous := net.DefaultResolver
	net.DefaultResolver = resolver
	t.Cleanup(func() { net.DefaultResolver = previous })
	port := secret.URL[strings.LastIndex(secret.URL, ":")+1:]
	g.Expect((&Policy{}).CheckHost(t.Context(), "rebinding.example.")).To(Succeed(), "the first answer is public")
	g.Expect(get(t, &Policy{}, "http://rebinding.example.:"+port+"/")).Error().To(MatchError(ErrDenied))
}

func TestTransport_checksRedirects(t *testing.T) {
	g := NewWithT(t)
	secret := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "credentials") })
	redirects := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL, http.StatusFound) })
	// The first hop is trusted by its name, the second is denied by its address.
	first, err := url.Parse(redirects.URL)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(get(t, &Policy{Hosts: []string{"localhost", "*"}}, "http://localhost:"+first.Port()+"/")).Error().To(MatchError(ErrDenied))
}

func TestTransport_sendsRequestsToAllowedHostsOnly(t *testing.T) {
	p := &Policy{Hosts: []string{"ghcr.io", "*.example.com"}, Allowed: prefixes("0.0.0.0/0")}
	for host, allowed := range map[string]bool{
		"ghcr.io": true, "GHCR.io.": true, "charts.example.com": true, "example.com": false, "evil.com": false, "ghcr.io.evil.com": false, "10.0.0.1": false,
	} {
		err := p.CheckName(host)
		NewWithT(t).Expect(err == nil).To(Equal(allowed), host)
	}
	NewWithT(t).Expect((&Policy{}).CheckName("any.host")).To(Succeed())
}

// Users must not reach other services beside the proxy of the manager.
func TestTransport_trustsOnlyThePortOfAProxy(t *testing.T) {
	g := NewWithT(t)
	secret := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "credentials") })
	proxy := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "by proxy") })
	t.Setenv("HTTPS_PROXY", proxy.URL)
	g.Expect(get(t, &Policy{}, secret.URL)).Error().To(MatchError(ErrDenied))
	connection, err := (&Policy{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(secret.URL, "http://"))
	if err == nil {
		_ = connection.Close()
	}
	g.Expect(err).To(MatchError(ErrDenied))
	g.Expect((&Policy{}).CheckHost(t.Context(), "127.0.0.1")).To(MatchError(ErrDenied))

	connection, err = (&Policy{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(proxy.URL, "http://"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(connection.Close()).To(Succeed())
	for value, port := range map[string]string{"http://proxy": "80", "https://proxy": "443", "proxy": "80", "socks5://proxy": "1080", "http://proxy:3128": "3128"} {
		t.Setenv("HTTPS_PROXY", value)
		g.Expect((&Policy{}).isTrusted("proxy", port)).To(BeTrue(), value)
		g.Expect((&Policy{}).isTrusted("proxy", "8080")).To(BeFalse(), value)
	}
}

func TestTransport_doesNotAskAProxyForADeniedAddress(t *testing.T) {
	g := NewWithT(t)
	asked := 0
	proxy := server(t, func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "by proxy") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	address, err := url.Parse(proxy.URL)
	g.Expect(err).NotTo(HaveOccurred())
	base := &http.Transport{Proxy: http.ProxyURL(address)}
	client := &http.Client{Transport: (&Policy{}).Transport(base)}
	send := func(to string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	g.Expect(send("http://169.254.169.254/latest/meta-data/")).To(MatchError(ErrDenied))
	for _, name := range []string{"localhost", "2852039166", "0xa9fea9fe", "0xa9.0xfe.43518", "169.254.43518", "0251.0376.0251.0376"} {
		g.Expect(send("http://"+name+"/latest/meta-data/")).To(MatchError(ErrDenied), name)
	}
	g.Expect(asked).To(Equal(0))
	g.Expect(send("http://charts.example.com/")).To(Succeed(), "the proxy itself may have any address")
	g.Expect(asked).To(Equal(1))
}

func TestCheckHost(t *testing.T) {
	g := NewWithT(t)
	p := &Policy{}
	g.Expect(p.CheckHost(t.Context(), "localhost")).To(MatchError(ErrDenied))
	g.Expect(p.CheckHost(t.Context(), "169.254.169.254")).To(MatchError(ErrDenied))
	g.Expect(p.CheckHost(t.Context(), "10.0.0.1")).To(Succeed())
	g.Expect((&Policy{Hosts: []string{"localhost"}}).CheckHost(t.Context(), "localhost")).To(Succeed())
	g.Expect((*Policy)(nil).CheckHost(t.Context(), "localhost")).To(Succeed())
}

func TestParseNetworks(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ParseNetworks([]string{"10.1.2.3/8", "::1", "127.0.0.1"})).To(Equal(prefixes("10.0.0.0/8", "::1/128", "127.0.0.1/32")))
	g.Expect(ParseNetworks([]string{"ten"})).Error().To(MatchError(`"ten" is not a network: write it as 10.0.0.0/8`))
}
