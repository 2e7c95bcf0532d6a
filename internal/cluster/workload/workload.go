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
)

// requestTimeout limits each request, because a reconciliation waits for it.
const requestTimeout = 5 * time.Second

// userAgent identifies CAPT in the audit log of a workload cluster.
const userAgent = "capt-manager"

// Connector connects to workload clusters.
type Connector struct {
	Scheme *runtime.Scheme
}

// Version checks that the API server is ready, and returns its version.
func (c Connector) Version(ctx context.Context, kubeconfig []byte) (*apiversion.Info, error) {
	config, err := restConfig(kubeconfig)
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
		return nil, fmt.Errorf("reading the version: %w", err)
	}
	return info, nil
}

// Client returns a client that reads without a cache.
func (c Connector) Client(kubeconfig []byte) (client.Client, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	created, err := client.New(config, client.Options{Scheme: c.Scheme})
	if err != nil {
		return nil, ShortError(err)
	}
	return created, nil
}

func restConfig(kubeconfig []byte) (*rest.Config, error) {
	cleaned, err := Clean(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(cleaned)
	if err != nil {
		return nil, errors.New("the kubeconfig is invalid")
	}
	config.Timeout, config.UserAgent = requestTimeout, userAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refuseRedirects{next} })
	return config, nil
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
// between attempts, such as the local port.
func ShortError(err error) error {
	var network *net.OpError
	var address *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return errors.New("the credentials of the kubeconfig are rejected")
	case apierrors.IsForbidden(err):
		return errors.New("the user of the kubeconfig has no permission")
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
