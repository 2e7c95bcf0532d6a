// Package workload connects to workload clusters by their kubeconfigs.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/dial"
)

// requestTimeout limits each request, because a reconciliation waits for it.
const requestTimeout = 5 * time.Second

// userAgent identifies CAPT in the audit log of a workload cluster.
const userAgent = "capt-manager"

// Settings of connections that stay open. A connection that does not answer a ping is
// closed, so that its watches start again.
const (
	idleTimeout  = 90 * time.Second
	pingInterval = 30 * time.Second
	pingTimeout  = 15 * time.Second
)

// Connector connects to workload clusters.
type Connector struct {
	Scheme *runtime.Scheme
	// Policy restricts the addresses of API servers.
	Policy *dial.Policy
}

// Version checks that the API server is ready, and returns its version.
func (c Connector) Version(ctx context.Context, kubeconfig []byte) (*apiversion.Info, error) {
	config, err := c.restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := d.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return nil, ShortError(err)
	}
	text, err := d.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, ShortError(err)
	}
	info := &apiversion.Info{}
	if err := json.Unmarshal(text, info); err != nil {
		return nil, errors.New("the answer to /version is not a version")
	}
	return info, nil
}

// Client returns a client that reads without a cache.
func (c Connector) Client(kubeconfig []byte) (client.Client, error) {
	config, err := c.restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	created, err := client.New(config, client.Options{Scheme: c.Scheme})
	if err != nil {
		return nil, ShortError(err)
	}
	return created, nil
}

// WatchConfig returns the configuration of a client that watches. Its requests end with
// their context, and each response has the same limits as those of Client.
func (c Connector) WatchConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := c.restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 0
	return config, nil
}

// LastingConfig returns the configuration of a connection that stays open, for requests
// and for watches. The timeout of requests is up to the caller.
func (c Connector) LastingConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := c.credentials(kubeconfig)
	if err != nil {
		return nil, err
	}
	return config, c.setLasting(config, kubeconfig)
}

// OwnConfig returns the same as LastingConfig for the cluster in which the manager runs.
// It has the credentials of the kubeconfig, and the address and certificates of the
// manager's own configuration, to which the policy does not apply.
func OwnConfig(kubeconfig []byte, own *rest.Config) (*rest.Config, error) {
	c := Connector{}
	config, err := c.credentials(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Host, config.CAData, config.CAFile = own.Host, own.CAData, own.CAFile
	return config, c.setLasting(config, kubeconfig)
}

func (c Connector) restConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := c.credentials(kubeconfig)
	if err != nil {
		return nil, err
	}
	// The connections end soon: each kubeconfig has its own, and is rarely used.
	return config, c.setTransport(config, &http.Transport{
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: requestTimeout,
		// Watches have no timeout, but their answers begin at once.
		ResponseHeaderTimeout: requestTimeout,
	})
}

// credentials returns the configuration of a kubeconfig that may be used.
func (c Connector) credentials(kubeconfig []byte) (*rest.Config, error) {
	cleaned, err := Clean(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(cleaned)
	if err != nil {
		return nil, errors.New("the kubeconfig is invalid")
	}
	config.Timeout, config.UserAgent = requestTimeout, userAgent
	// The ends of events are found in JSON.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return config, nil
}

// setTransport makes a configuration use base with its certificates, and limits it to
// allowed addresses and sizes of responses.
func (c Connector) setTransport(config *rest.Config, base *http.Transport) error {
	certificates, err := rest.TLSConfigFor(config)
	if err != nil {
		return errors.New("the certificates of the kubeconfig are invalid")
	}
	base.Proxy, base.TLSClientConfig = http.ProxyFromEnvironment, certificates
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = limited{next: refuseRedirects{c.Policy.Transport(base)}}
	return nil
}

// lasting returns a transport that has one connection for all requests and watches. It
// does not compress: each watch would keep the memory of a decompressor.
func lasting() *http.Transport {
	return &http.Transport{
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: idleTimeout, DisableCompression: true,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingTimeout},
	}
}

// refuseRedirects refuses to follow a redirect, with which an API server could obtain
// the credentials that the client adds for another server.
type refuseRedirects struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r refuseRedirects) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil && response.StatusCode >= 300 && response.StatusCode < 400 && response.Header.Get("Location") != "" {
		_ = response.Body.Close()
		return nil, errors.New("the API server redirects to another address")
	}
	return response, err
}

// Causes of failed requests.
var (
	errRejected  = errors.New("the credentials of the kubeconfig are rejected")
	errForbidden = errors.New("the user of the kubeconfig has no permission")
)

// ShortError returns the cause of a failed request. It omits details that differ
// between attempts, such as the local port, and what the server answered: a user chooses
// the server, and could read an answer that only the manager gets.
func ShortError(err error) error {
	var network *net.OpError
	var address *url.Error
	var answer apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return errRejected
	case apierrors.IsForbidden(err):
		return errForbidden
	case errors.As(err, &answer):
		code := int(answer.Status().Code)
		return fmt.Errorf("the API server returned %d %s", code, http.StatusText(code))
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%s: %w", network.Addr, network.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no response within %s", requestTimeout)
	case errors.As(err, &address):
		return address.Err
	default:
		return err
	}
}
