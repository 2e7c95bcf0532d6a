// Package workload reaches workload clusters by their kubeconfigs.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// timeout bounds each request: a reconcile waits for it.
const timeout = 5 * time.Second

// userAgent is how the workload cluster's audit log shows CAPT.
const userAgent = "capt-manager"

// Reach reaches workload clusters.
type Reach struct {
	Scheme *runtime.Scheme
}

// Version asks the API server whether it is ready, and for its version.
func (r Reach) Version(ctx context.Context, kubeconfig []byte) (*apiversion.Info, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return nil, Brief(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, Brief(err)
	}
	info := &apiversion.Info{}
	if err := json.Unmarshal(text, info); err != nil {
		return nil, fmt.Errorf("reading the version: %w", err)
	}
	return info, nil
}

// Client returns a client that reads without a cache.
func (r Reach) Client(kubeconfig []byte) (client.Client, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: r.Scheme})
	if err != nil {
		return nil, Brief(err)
	}
	return c, nil
}

func restConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be read")
	}
	config.Timeout, config.UserAgent = timeout, userAgent
	return config, nil
}

// Brief says what a person needs of an error, and nothing that differs from one
// attempt to the next, such as a port of ours.
func Brief(err error) error {
	var network *net.OpError
	var address *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return errors.New("it does not accept the credentials of the kubeconfig")
	case apierrors.IsForbidden(err):
		return errors.New("it does not permit the user of the kubeconfig to look")
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%s: %w", network.Addr, network.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", timeout)
	case errors.As(err, &address):
		return address.Err
	default:
		return err
	}
}
