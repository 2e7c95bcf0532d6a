package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	retryInterval = 100 * time.Millisecond
	// MaxAbsence is how long an API server may be unreachable that is known to come
	// back, or that must create a node.
	MaxAbsence = time.Minute
	// DefaultAbsence is how long an API server of unknown state may refuse
	// connections before its cluster counts as deleted.
	DefaultAbsence = 5 * time.Second
)

// Client creates and deletes the nodes of a cluster.
type Client struct {
	api *rest.RESTClient
	// MaxAbsence returns how long the API server may refuse connections before its
	// cluster counts as deleted. It is called after every failed attempt.
	MaxAbsence func() time.Duration
}

// NewClient returns a client for the cluster of a kubeconfig.
func NewClient(kubeconfig []byte) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		// The parser's error may quote secrets of the kubeconfig.
		return nil, errors.New("the kubeconfig is invalid: pass the content of a kubeconfig file")
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.Timeout = 15 * time.Second
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &Client{api: api, MaxAbsence: func() time.Duration { return DefaultAbsence }}, nil
}

// Apply creates or updates the node.
func (c *Client) Apply(ctx context.Context, node *Node) error {
	return c.retry(ctx, func() time.Duration { return MaxAbsence }, func() error {
		object, err := c.createOrUpdate(ctx, node)
		if err != nil {
			return err
		}
		node.mergeStatus(object)
		if err := c.api.Put().Resource("nodes").Name(node.Name).SubResource("status").Body(object).Do(ctx).Error(); err != nil {
			return fmt.Errorf("writing the status of node %s: %w", node.Name, err)
		}
		return nil
	})
}

// createOrUpdate writes everything but the status.
func (c *Client) createOrUpdate(ctx context.Context, node *Node) (*corev1.Node, error) {
	var object corev1.Node
	err := c.api.Get().Resource("nodes").Name(node.Name).Do(ctx).Into(&object)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading node %s: %w", node.Name, err)
	}
	if !exists {
		object = corev1.Node{}
	}
	if err := node.merge(&object); err != nil {
		return nil, err
	}
	request := c.api.Post().Resource("nodes")
	if exists {
		request = c.api.Put().Resource("nodes").Name(node.Name)
	}
	var result corev1.Node
	if err := request.Body(&object).Do(ctx).Into(&result); err != nil {
		return nil, fmt.Errorf("writing node %s: %w", node.Name, err)
	}
	return &result, nil
}

// Delete deletes the node if it has the provider ID. The note is the reason if there
// was nothing to delete. That is also the case if the cluster no longer exists.
func (c *Client) Delete(ctx context.Context, name, providerID string) (note string, err error) {
	err = c.retry(ctx, c.MaxAbsence, func() error {
		note, err = c.deleteOnce(ctx, name, providerID)
		return err
	})
	if isClusterDeleted(err) {
		return "the cluster no longer exists", nil
	}
	return note, err
}

func (c *Client) deleteOnce(ctx context.Context, name, providerID string) (note string, err error) {
	var object corev1.Node
	err = c.api.Get().Resource("nodes").Name(name).Do(ctx).Into(&object)
	switch {
	case apierrors.IsNotFound(err):
		return "the node does not exist", nil
	case err != nil:
		return "", fmt.Errorf("reading node %s: %w", name, err)
	case object.Spec.ProviderID != providerID:
		return fmt.Sprintf("not deleted: the node belongs to another machine, %s", object.Spec.ProviderID), nil
	}
	err = c.api.Delete().Resource("nodes").Name(name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("deleting node %s: %w", name, err)
	}
	return "", nil
}

// retry repeats a call that failed because of a concurrent change, or because the API
// server is restarting, until limit is over.
func (c *Client) retry(ctx context.Context, limit func() time.Duration, call func() error) error {
	began := time.Now()
	var last error
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(context.Context) (bool, error) {
		last = call()
		return !isTransient(last) || time.Since(began) > limit(), nil
	})
	if err != nil {
		return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), last)
	}
	return last
}

func isTransient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, syscall.ECONNREFUSED) || utilnet.IsTimeout(err) ||
		utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}

// isClusterDeleted reports whether an error means that no program, or another cluster,
// uses the address of the API server.
func isClusterDeleted(err error) bool {
	_, other := errors.AsType[x509.UnknownAuthorityError](err)
	return other || errors.Is(err, syscall.ECONNREFUSED)
}
