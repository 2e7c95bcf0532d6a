package describe

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// debounce is the time to collect changes before they are shown: they come in
// bursts.
const debounce = 100 * time.Millisecond

// Watcher watches a Cluster and its objects.
type Watcher struct {
	// Config is the configuration of the management cluster, Reader an uncached
	// client for it.
	Config *rest.Config
	Reader client.Reader
	Key    client.ObjectKey
	// Connector connects to the workload cluster.
	Connector workload.Connector
	// All includes implementation details.
	All bool
	// Refresh is the time after which the objects are shown again without a change. Zero is
	// never.
	Refresh time.Duration

	changed chan struct{}
	nodes   nodeWatcher
}

// Watch calls show with the current objects, and again after each change and each Refresh, until
// the context is done, show fails, or the Cluster is deleted.
func (w *Watcher) Watch(ctx context.Context, show func(*Objects) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.changed = make(chan struct{}, 1)
	// A cache retries without an error what it is not allowed to read: find out first.
	if _, err := Read(ctx, w.Reader, w.Key, w.All); err != nil {
		return err
	}
	store, err := w.start(ctx)
	if err != nil {
		return err
	}
	for {
		objects, err := Read(ctx, store, w.Key, w.All)
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		objects.Nodes = w.nodes.current(ctx, w, objects)
		if err := show(objects); err != nil {
			return err
		}
		if !nextChange(ctx, w.changed, w.Refresh) {
			return nil
		}
	}
}

// Kinds returns an object of each kind that ReadAll reads.
func Kinds() []client.Object {
	objects := []client.Object{&clusterv1.Cluster{}, &addonsv1.CAPTAddon{}}
	for _, k := range kinds(false) {
		objects = append(objects, k.object)
	}
	return objects
}

// WatchAll calls show with a reader of the kinds of objects in a namespace, or in all namespaces if
// it is empty, and again after each change, until the context is done or show fails. It waits
// without an error for what the user may not list.
func WatchAll(ctx context.Context, config *rest.Config, namespace string, objects []client.Object, show func(client.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	store, err := startCache(ctx, config, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}, objects, changed)
	if err != nil {
		return err
	}
	for {
		if err := show(store); err != nil || !nextChange(ctx, changed, 0) {
			return err
		}
	}
}

// nextChange waits for a change, or until refresh has passed if it is not zero, and then until the
// changes of a burst have arrived. It reports false if the context is done.
func nextChange(ctx context.Context, changed <-chan struct{}, refresh time.Duration) bool {
	var due <-chan time.Time
	if refresh > 0 {
		due = time.After(refresh)
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-due:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(debounce):
		return true
	}
}

// WatchNodes watches the nodes of a Cluster's workload cluster until the context is
// done. The function current returns the nodes that are known now, or nil; the first
// call after the control plane is initialized starts the watch. It does not wait for
// the workload cluster. The channel receives a value after a change.
func WatchNodes(ctx context.Context, c client.Reader, connector workload.Connector, cluster client.ObjectKey) (current func(*Objects) *Nodes, changed <-chan struct{}) {
	w := &Watcher{Reader: c, Key: cluster, Connector: connector, changed: make(chan struct{}, 1)}
	return func(o *Objects) *Nodes { return w.nodes.current(ctx, w, o) }, w.changed
}

// notify records that something changed. It does not block.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// notifier returns a handler that records each change.
func notifier(changed chan<- struct{}) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify(changed) },
		UpdateFunc: func(any, any) { notify(changed) },
		DeleteFunc: func(any) { notify(changed) },
	}
}

// start watches every kind that is installed.
func (w *Watcher) start(ctx context.Context) (cache.Cache, error) {
	labelled := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: w.Key.Name})}
	objects := []client.Object{&clusterv1.Cluster{}, &addonsv1.CAPTAddon{}}
	selectors := map[client.Object]cache.ByObject{
		objects[0]: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, w.Key.Name)},
	}
	for _, k := range kinds(w.All) {
		objects = append(objects, k.object)
		if k.labelled {
			selectors[k.object] = labelled
		}
	}
	return startCache(ctx, w.Config, cache.Options{
		ByObject: selectors, DefaultNamespaces: map[string]cache.Config{w.Key.Namespace: {}},
	}, objects, w.changed)
}

// startCache watches the kinds of objects, as far as they are installed, until the context is
// done. The channel receives a value after a change.
func startCache(ctx context.Context, config *rest.Config, options cache.Options, objects []client.Object, changed chan<- struct{}) (cache.Cache, error) {
	options.Scheme = scheme.New()
	store, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", config.Host, err)
	}
	go func() { _ = store.Start(ctx) }()
	for _, obj := range objects {
		informer, err := store.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if _, missing := scheme.NotInstalled(err); missing {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(notifier(changed)); err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	store.WaitForCacheSync(ctx)
	return store, nil
}

// nodeWatcher watches the nodes of the workload cluster. It starts a new watch for
// each new kubeconfig, because the token of the previous one expires.
type nodeWatcher struct {
	mu      sync.Mutex
	started bool
	// kubeconfig is the time of the kubeconfig in use.
	kubeconfig metav1.Time
	stop       context.CancelFunc
	store      cache.Cache
	err        error
}

// current returns the nodes that are known now, or nil. It does not wait for the
// workload cluster.
func (n *nodeWatcher) current(ctx context.Context, w *Watcher, o *Objects) *Nodes {
	if !o.ControlPlaneInitialized() {
		return nil
	}
	n.mu.Lock()
	if kubeconfig := o.kubeconfigRenewedAt(); !n.started || !n.kubeconfig.Equal(&kubeconfig) {
		if n.stop != nil {
			n.stop()
		}
		var inner context.Context
		inner, n.stop = context.WithCancel(ctx)
		n.started, n.kubeconfig = true, kubeconfig
		go n.start(inner, w)
	}
	store, err := n.store, n.err
	n.mu.Unlock()
	if err != nil {
		return &Nodes{Err: err}
	}
	if store == nil {
		return nil
	}
	var list corev1.NodeList
	if err := store.List(ctx, &list); err != nil {
		return &Nodes{Err: err}
	}
	return &Nodes{Items: list.Items}
}

func (n *nodeWatcher) start(ctx context.Context, w *Watcher) {
	store, err := watchNodes(ctx, w)
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.store, n.err = store, err
	n.mu.Unlock()
	notify(w.changed)
}

func watchNodes(ctx context.Context, w *Watcher) (cache.Cache, error) {
	// A cache does not report the error of a watch: list once before.
	if nodes := ReadNodes(ctx, w.Reader, w.Connector, w.Key); nodes.Err != nil {
		return nil, nodes.Err
	}
	kubeconfig, err := workloadKubeconfig(ctx, w.Reader, w.Key)
	if err != nil {
		return nil, err
	}
	config, err := w.Connector.WatchConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return startCache(ctx, config, cache.Options{}, []client.Object{&corev1.Node{}}, w.changed)
}
