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

// maxResponse limits a response of an API server, which the manager reads into memory.
const maxResponse = 16 << 20

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

func (c Connector) restConfig(kubeconfig []byte) (*rest.Config, error) {
	cleaned, err := Clean(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(cleaned)
	if err != nil {
		return nil, errors.New("the kubeconfig is invalid")
	}
	config.Timeout, config.UserAgent = requestTimeout, userAgent
	certificates, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, errors.New("the certificates of the kubeconfig are invalid")
	}
	// The connections end soon: each kubeconfig has its own, and is rarely used.
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: certificates,
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: requestTimeout,
		// Watches have no timeout, but their answers begin at once.
		ResponseHeaderTimeout: requestTimeout,
	}
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = limited{refuseRedirects{c.Policy.Transport(base)}}
	return config, nil
}

// limited limits the size of responses.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	}
	return response, err
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

// ShortError returns the cause of a failed request. It omits details that differ
// between attempts, such as the local port, and what the server answered: a user chooses
// the server, and could read an answer that only the manager gets.
func ShortError(err error) error {
	var network *net.OpError
	var address *url.Error
	var answer apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return errors.New("the credentials of the kubeconfig are rejected")
	case apierrors.IsForbidden(err):
		return errors.New("the user of the kubeconfig has no permission")
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
