package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

const (
	// requestTimeout limits each request and each read from the cache, which waits for the
	// first list of a kind.
	requestTimeout = 10 * time.Second
	// listTimeout limits the lists of the cache. It is longer than client-go's watches last.
	listTimeout = 11 * time.Minute
	// qps and burst limit the requests to one workload cluster.
	qps, burst = 20, 30
)

// connection is an open connection to a workload cluster.
type connection struct {
	config  *rest.Config
	probes  rest.Interface
	live    client.Client
	cached  client.Client
	objects cache.Cache
	// stop ends the watches.
	stop context.CancelFunc
	// watches are the names of the watches that were added.
	watches map[string]bool
	// version is the resource version of the kubeconfig's Secret. Only the controller uses
	// it.
	version string
}

// kubeconfig is the kubeconfig of a cluster, and the version of the Secret.
type kubeconfig struct {
	content []byte
	version string
}

// read reads the kubeconfig of a cluster.
func (c *Cache) read(ctx context.Context, cluster client.ObjectKey) (*kubeconfig, error) {
	found, err := secret.Get(ctx, c.options.Secrets, cluster, secret.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &kubeconfig{found.Data[secret.KubeconfigDataName], found.ResourceVersion}, nil
}

// isCurrent reports whether a connection has the cluster's kubeconfig. Without that Secret
// there is no other one.
func (c *Cache) isCurrent(ctx context.Context, cluster client.ObjectKey, opened *connection) bool {
	found := object.Metadata(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.options.Metadata.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}, found)
	return err != nil || found.ResourceVersion == opened.version
}

// connect opens a connection to a cluster with its kubeconfig.
func (c *Cache) connect(ctx context.Context, cluster client.ObjectKey, k *kubeconfig) (*connection, error) {
	config, err := c.options.Connector.LastingConfig(k.content)
	if err != nil {
		return nil, err
	}
	opened, err := c.open(ctx, config)
	if err != nil {
		return nil, err
	}
	runsHere, err := c.options.Pod.runsIn(ctx, opened.live)
	if err == nil && runsHere {
		if config, err = workload.OwnConfig(k.content, c.options.Own); err == nil {
			opened, err = c.open(ctx, config)
		}
	}
	if err != nil {
		return nil, err
	}
	opened.version = k.version
	return opened, c.start(cluster, opened) //nolint:contextcheck // The connection outlives the reconcile.
}

// open creates the clients, and checks that the API server answers.
func (c *Cache) open(ctx context.Context, config *rest.Config) (*connection, error) {
	config.Timeout, config.QPS, config.Burst = requestTimeout, qps, burst
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	lookup, err := discovery.NewDiscoveryClientForConfigAndClient(config, requests)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	kinds, err := apiutil.NewDynamicRESTMapper(config, &http.Client{Transport: unaggregated{requests.Transport}, Timeout: requests.Timeout})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	live, err := client.New(config, client.Options{HTTPClient: requests, Scheme: c.options.Scheme, Mapper: mapper{kinds}})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	opened := &connection{config: config, probes: lookup.RESTClient(), live: live, watches: map[string]bool{}}
	if err := opened.probe(ctx); err != nil {
		return nil, fmt.Errorf("cluster is not reachable: %w", err)
	}
	return opened, nil
}

// start adds the cache of a connection. It watches a kind when the kind is first read.
func (c *Cache) start(cluster client.ObjectKey, opened *connection) error {
	config := rest.CopyConfig(opened.config)
	config.Timeout = listTimeout
	watching, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	// The context of a reconcile ends before the connection.
	log := klog.FromContext(c.ctx).WithValues("Cluster", klog.KRef(cluster.Namespace, cluster.Name))
	ctx, stop := context.WithCancel(c.ctx)
	objects, err := cache.New(config, cache.Options{
		HTTPClient: watching, Scheme: c.options.Scheme, Mapper: opened.live.RESTMapper(),
		DefaultTransform: c.options.Transform, ByObject: c.options.ByObject, NewInformer: c.newInformer,
		DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
			if ctx.Err() == nil {
				log.Info("Failed to watch the workload cluster", "type", r.TypeDescription(), "reason", shortError(err))
			}
		},
	})
	if err != nil {
		stop()
		return fmt.Errorf("creating a cache: %w", err)
	}
	go func() { _ = objects.Start(ctx) }() // It returns when the context ends.
	if !objects.WaitForCacheSync(ctx) {
		stop()
		return errors.New("the manager stops")
	}
	opened.objects, opened.stop = &objectsOf{Cache: objects, connected: ctx}, stop
	opened.cached = cachedClient{Client: opened.live, objects: objects}
	return nil
}

// renew makes the connection use a kubeconfig in which only the token has changed. It
// reports false if more has changed.
func (c *connection) renew(k *kubeconfig) bool {
	if !workload.Renew(c.config, k.content) {
		return false
	}
	c.version = k.version
	return true
}

// probe checks that the API server answers, with its shortest answer to any user.
func (c *connection) probe(ctx context.Context) error {
	return c.probes.Get().AbsPath("/version").Timeout(probeTimeout).Do(ctx).Error()
}

// cachedClient reads from a cache.
type cachedClient struct {
	client.Client

	objects client.Reader
}

// Get implements client.Reader. It waits for the first list of the kind.
func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.objects.Get(ctx, key, obj, opts...)
}

// List implements client.Reader. It waits for the first list of the kind.
func (c cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.objects.List(ctx, list, opts...)
}

// Pod is the pod of the manager. It is empty outside of a cluster.
type Pod struct{ Namespace, Name, UID string }

// runsIn reports whether the pod runs in a workload cluster.
func (p Pod) runsIn(ctx context.Context, c client.Reader) (bool, error) {
	if p.Namespace == "" || p.Name == "" || p.UID == "" {
		return false, nil
	}
	// The cluster may answer with anything, and no more of it is read.
	pod := object.Metadata(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := c.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Name}, pod)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking whether the manager runs in the cluster: %w", err)
	}
	return string(pod.UID) == p.UID, nil
}
