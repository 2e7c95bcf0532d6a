// Package dial restricts the addresses to which the manager connects for its users. A
// user who names a chart repository, an API server or an endpoint must not reach services
// that only the manager can reach, such as the metadata service of the cloud.
package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// denied are the networks that are never a chart repository or an API server.
var denied = prefixes(
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
	"::/128", "::1/128", "fe80::/10", "ff00::/8",
	// Metadata services that are not link-local: AWS, Google, Alibaba, Oracle and Azure.
	"fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32",
)

// embedding are the IPv6 networks whose addresses contain an IPv4 address, and where it
// begins: IPv4-compatible, NAT64 and 6to4. netip unmaps IPv4-mapped ones.
var embedding = []struct {
	network netip.Prefix
	offset  int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

func prefixes(texts ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// ErrDenied reports an address to which the manager does not connect.
var ErrDenied = errors.New("the manager does not connect to this address")

// timeout and keepAlive are those of the default transport.
const timeout, keepAlive = 30 * time.Second, 30 * time.Second

// Policy decides to which addresses connections are made. The zero value denies
// loopback, link-local and multicast addresses, and metadata services. A nil Policy
// denies nothing.
type Policy struct {
	// Allowed are networks that are allowed although they are denied by default.
	Allowed []netip.Prefix
	// Denied are further networks, such as those of Services.
	Denied []netip.Prefix
	// Hosts are the hosts to which requests are sent, such as ghcr.io or
	// *.example.com. If it is empty, requests are sent to all hosts. A host without a
	// wildcard may have any address.
	Hosts []string
}

// Check returns an error that wraps ErrDenied if addr is denied.
func (p *Policy) Check(addr netip.Addr) error {
	if p == nil {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	for _, candidate := range append(embedded(addr), addr) {
		if contains(p.Allowed, candidate) {
			continue
		}
		if contains(denied, candidate) || contains(p.Denied, candidate) {
			return fmt.Errorf("%s: %w", addr, ErrDenied)
		}
	}
	return nil
}

// embedded returns the IPv4 addresses in an IPv6 address.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return nil
	}
	bytes := addr.As16()
	for _, e := range embedding {
		if e.network.Contains(addr) {
			return []netip.Addr{netip.AddrFrom4([4]byte(bytes[e.offset : e.offset+4]))}
		}
	}
	return nil
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// CheckHost returns an error if a host is not allowed, or if one of its addresses is
// denied. A name that cannot be resolved is not denied.
func (p *Policy) CheckHost(ctx context.Context, host string) error {
	if p == nil || p.isTrusted(host, "") {
		return nil
	}
	if err := p.CheckName(host); err != nil {
		return err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, addr := range addresses {
		if err := p.Check(addr); err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
	}
	return nil
}

// CheckName returns an error if a host is not among Hosts.
func (p *Policy) CheckName(host string) error {
	matches := func(pattern string) bool {
		matched, err := path.Match(normalized(pattern), normalized(host))
		return matched && err == nil
	}
	if len(p.Hosts) > 0 && !slices.ContainsFunc(p.Hosts, matches) {
		return fmt.Errorf("host %s is not allowed: %w", host, ErrDenied)
	}
	return nil
}

// isTrusted reports whether the administrator allowed exactly this host, or it is a
// proxy of the manager with this port. Other ports beside a proxy are not trusted.
func (p *Policy) isTrusted(host, port string) bool {
	same := func(other string) bool { return normalized(other) == normalized(host) }
	return slices.ContainsFunc(p.Hosts, same) || slices.Contains(proxies(), net.JoinHostPort(normalized(host), port))
}

func normalized(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// proxyPorts are the ports of proxies whose addresses have none.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// proxies returns the hosts and ports of the proxies in the environment.
func proxies() []string {
	var hosts []string
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		if parsed, err := url.Parse(value); err == nil {
			hosts = append(hosts, net.JoinHostPort(normalized(parsed.Hostname()), cmp.Or(parsed.Port(), proxyPorts[parsed.Scheme])))
		}
	}
	return hosts
}

// DialContext connects to an address. It checks the address that the connection is made
// to, so that a name cannot have another one when it is resolved again.
func (p *Policy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: keepAlive}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if p != nil && !p.isTrusted(host, port) {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%s: %w", address, ErrDenied)
			}
			return p.Check(target.Addr())
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// Transport returns a transport that connects only to allowed hosts and addresses. It
// checks each request, and therefore each redirect.
func (p *Policy) Transport(base *http.Transport) http.RoundTripper {
	base = base.Clone()
	base.DialContext = p.DialContext
	return checked{policy: p, proxy: base.Proxy, next: base}
}

type checked struct {
	policy *Policy
	// proxy returns the proxy of a request, or nil. It may be nil.
	proxy func(*http.Request) (*url.URL, error)
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c checked) RoundTrip(request *http.Request) (*http.Response, error) {
	host := request.URL.Hostname()
	if c.policy != nil && !c.policy.isTrusted(host, cmp.Or(request.URL.Port(), proxyPorts[request.URL.Scheme])) {
		if err := c.policy.CheckName(host); err != nil {
			return nil, err
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			if err := c.policy.Check(addr); err != nil {
				return nil, err
			}
		} else if err := c.checkProxied(request, host); err != nil {
			return nil, err
		}
	}
	return c.next.RoundTrip(request)
}

// numeric matches hosts that some programs read as an address, such as 2852039166,
// 0xa9fea9fe and 169.254.43518.
var numeric = regexp.MustCompile(`^(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+))*\.?$`)

// checkProxied returns an error if a proxy would connect to an address that is denied. The
// proxy resolves the name itself, so this is not as strict as DialContext.
func (c checked) checkProxied(request *http.Request, host string) error {
	if c.proxy == nil {
		return nil
	}
	if proxy, err := c.proxy(request); err != nil || proxy == nil {
		return err
	}
	if numeric.MatchString(host) {
		return fmt.Errorf("%s: %w", host, ErrDenied)
	}
	return c.policy.CheckHost(request.Context(), host)
}

// ParseNetworks returns networks in CIDR notation. An address is a network of its own.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			networks = append(networks, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network: write it as 10.0.0.0/8", text)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}
