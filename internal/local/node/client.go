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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	retryInterval = 100 * time.Millisecond
	// Patience is how long an API server may be away that is known to come
	// back, or that is to get a node.
	Patience = time.Minute
	// Absence is how long an API server of which nothing is known may refuse
	// connections before it is taken for gone.
	Absence = 5 * time.Second
)

// Client makes and removes nodes of one cluster.
type Client struct {
	api *rest.RESTClient
	// MayBeAway is how long the API server may refuse connections before its
	// cluster is taken for gone. It is asked again and again.
	MayBeAway func() time.Duration
}

// NewClient returns a client for the cluster of a kubeconfig.
func NewClient(kubeconfig []byte) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		// The parser's own words may quote what it could not read.
		return nil, errors.New("the kubeconfig cannot be read: give the content of a kubeconfig file")
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.Timeout = 15 * time.Second
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	return &Client{api: api, MayBeAway: func() time.Duration { return Absence }}, nil
}

// Apply makes the node what is asked for, whether it exists or not.
func (c *Client) Apply(ctx context.Context, node *Node) error {
	return c.retry(ctx, func() time.Duration { return Patience }, func() error {
		object, err := c.ensure(ctx, node)
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

// ensure creates or updates everything but the status.
func (c *Client) ensure(ctx context.Context, node *Node) (*corev1.Node, error) {
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

// Delete removes the node if it is the machine of that provider ID. The note
// says why there was nothing to remove: also a cluster that is gone has no such
// node.
func (c *Client) Delete(ctx context.Context, name, providerID string) (note string, err error) {
	err = c.retry(ctx, c.MayBeAway, func() error {
		note, err = c.remove(ctx, name, providerID)
		return err
	})
	if gone(err) {
		return "the cluster is gone, and the node with it", nil
	}
	return note, err
}

func (c *Client) remove(ctx context.Context, name, providerID string) (string, error) {
	var object corev1.Node
	err := c.api.Get().Resource("nodes").Name(name).Do(ctx).Into(&object)
	switch {
	case apierrors.IsNotFound(err):
		return "the node does not exist", nil
	case err != nil:
		return "", fmt.Errorf("reading node %s: %w", name, err)
	case object.Spec.ProviderID != providerID:
		return fmt.Sprintf("the node is another machine, %s, and stays", object.Spec.ProviderID), nil
	}
	err = c.api.Delete().Resource("nodes").Name(name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("deleting node %s: %w", name, err)
	}
	return "", nil
}

// retry repeats what was refused because somebody else was faster, or because
// the API server is just being started again.
func (c *Client) retry(ctx context.Context, limit func() time.Duration, try func() error) error {
	began := time.Now()
	for {
		err := try()
		passing := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, syscall.ECONNREFUSED) ||
			apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
		if !passing || time.Since(began) > limit() {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-time.After(retryInterval):
		}
	}
}

// gone tells whether nobody listens at the address any more, or another cluster
// does.
func gone(err error) bool {
	_, other := errors.AsType[x509.UnknownAuthorityError](err)
	return other || errors.Is(err, syscall.ECONNREFUSED)
}
