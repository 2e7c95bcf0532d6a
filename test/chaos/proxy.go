package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// proxy is between a manager with its processes and the API server. It sends the requests of the
// manager with the credentials of an account, and those of runs with their own.
type proxy struct {
	manager, runs http.RoundTripper
	// kubeconfig is the path of the manager's kubeconfig, which has no credentials.
	kubeconfig string

	mu     sync.Mutex
	active map[fault]int
	// requests counts requests during a fault. One of proxyShare is disrupted.
	requests int
	// connected ends when the manager is disconnected.
	connected  context.Context
	disconnect context.CancelFunc
}

// proxyShare is the number of requests during a fault of which one is disrupted: so many that a
// retry succeeds.
const proxyShare = 4

// errDisrupted means that the client gets no response.
var errDisrupted = errors.New("the proxy disrupts this request")

// newProxy starts a proxy, and writes a kubeconfig for a manager.
func newProxy(kubeconfig string, account *rest.Config) (*proxy, error) {
	p := &proxy{kubeconfig: kubeconfig, active: map[fault]int{}}
	p.connected, p.disconnect = context.WithCancel(context.Background())
	account = rest.CopyConfig(account)
	// Watches do not end.
	account.Timeout = 0
	var err error
	if p.manager, err = rest.TransportFor(account); err != nil {
		return nil, fmt.Errorf("connecting the manager: %w", err)
	}
	if p.runs, err = rest.TransportFor(rest.AnonymousClientConfig(account)); err != nil {
		return nil, fmt.Errorf("connecting runs: %w", err)
	}
	target, err := url.Parse(account.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	address, err := serve("127.0.0.1", &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: p,
		// Events of watches are not collected.
		FlushInterval: -1,
		// Clients and the API server are killed.
		ErrorLog: log.New(io.Discard, "", 0),
		// The API server may be killed: its clients get no response then either.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	if err != nil {
		return nil, err
	}
	const name = "chaos"
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: address}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of a manager: %w", err)
	}
	return p, os.Chmod(kubeconfig, 0o600)
}

// begin starts a fault. It ends when the returned function is called.
func (p *proxy) begin(f fault) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active[f]++
	if f == partitionManager {
		p.disconnect()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.active[f]--
		if f == partitionManager && p.active[f] == 0 {
			p.connected, p.disconnect = context.WithCancel(context.Background())
		}
	}
}

// choose returns the fault of a request, or nothing. Reads are not repeated.
func (p *proxy) choose(r *http.Request) (fault, context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active[partitionManager] > 0 {
		return partitionManager, p.connected
	}
	for _, f := range []fault{failRequests, loseResponses, repeatRequests} {
		if p.active[f] == 0 || r.Method == http.MethodGet && f != failRequests {
			continue
		}
		if p.requests++; p.requests%proxyShare == 0 {
			return f, p.connected
		}
	}
	return "", p.connected
}

// RoundTrip sends a request, unless it is disrupted.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	f, connected := p.choose(r)
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(connected, cancel) //nolint:contextcheck // The request ends with its connection, too.
	response, err := p.send(r.WithContext(ctx), f)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	response.Body = &closing{ReadCloser: response.Body, close: func() { stop(); cancel() }}
	return response, nil
}

// closing is a body with a function that is called when it is closed.
type closing struct {
	io.ReadCloser
	close func()
}

func (c *closing) Close() error {
	defer c.close()
	return c.ReadCloser.Close()
}

func (p *proxy) send(r *http.Request, f fault) (*http.Response, error) {
	transport := p.manager
	if r.Header.Get("Authorization") != "" {
		transport = p.runs
	}
	switch f {
	case partitionManager:
		return nil, errDisrupted
	case failRequests:
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{"Content-Type": {"text/plain"}},
			ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewBufferString("etcdserver: request timed out")),
		}, nil
	case loseResponses, repeatRequests:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		first := r.Clone(r.Context())
		first.Body = io.NopCloser(bytes.NewReader(body))
		response, err := transport.RoundTrip(first)
		if err != nil {
			return nil, err
		}
		if err := response.Body.Close(); err != nil || f == loseResponses {
			return nil, errDisrupted
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return transport.RoundTrip(r)
}
