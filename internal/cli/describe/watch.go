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
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// settle is how long changes are gathered before they are shown: they come in
// bursts.
const settle = 100 * time.Millisecond

// Watcher follows a Cluster by watches.
type Watcher struct {
	// Config reaches the management cluster, Reader reads it without a cache.
	Config *rest.Config
	Reader client.Reader
	Key    client.ObjectKey
	// All tells whether details are watched, too.
	All bool

	changed chan struct{}
	nodes   nodeWatch
}

// Watch calls show with the Cluster as it is, and again after each change, until
// the context ends, show fails, or the Cluster is gone.
func (w *Watcher) Watch(ctx context.Context, show func(*Objects) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.changed = make(chan struct{}, 1)
	// What cannot be watched cannot be read either: say so at once.
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
		objects.Nodes = w.nodes.look(ctx, w, objects)
		if err := show(objects); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// touch notes that something has changed.
func (w *Watcher) touch() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *Watcher) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.touch() },
		UpdateFunc: func(any, any) { w.touch() },
		DeleteFunc: func(any) { w.touch() },
	}
}

// start watches every kind that is installed.
func (w *Watcher) start(ctx context.Context) (cache.Cache, error) {
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: w.Key.Name})}
	objects := []client.Object{&clusterv1.Cluster{}, &addonsv1.CAPTAddon{}}
	selected := map[client.Object]cache.ByObject{
		objects[0]: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, w.Key.Name)},
	}
	for _, k := range kinds(w.All) {
		objects = append(objects, k.object)
		if k.labelled {
			selected[k.object] = ofCluster
		}
	}
	store, err := cache.New(w.Config, cache.Options{
		Scheme: scheme.New(), ByObject: selected,
		DefaultNamespaces: map[string]cache.Config{w.Key.Namespace: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("watching the management cluster: %w", err)
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
		if _, err := informer.AddEventHandler(w.handler()); err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	store.WaitForCacheSync(ctx)
	return store, nil
}

// nodeWatch follows the nodes of the workload cluster. Each new kubeconfig
// begins a new watch: the token of the one before ends.
type nodeWatch struct {
	mu    sync.Mutex
	since metav1.Time
	begun bool
	stop  context.CancelFunc
	store cache.Cache
	err   error
}

// look returns the nodes as far as they are known, and never waits for the
// workload cluster.
func (n *nodeWatch) look(ctx context.Context, w *Watcher, o *Objects) *Nodes {
	if !o.Answers() {
		return nil
	}
	n.mu.Lock()
	if since := o.kubeconfigAge(); !n.begun || !n.since.Equal(&since) {
		if n.stop != nil {
			n.stop()
		}
		var inner context.Context
		inner, n.stop = context.WithCancel(ctx)
		n.begun, n.since = true, since
		go n.begin(inner, w)
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

func (n *nodeWatch) begin(ctx context.Context, w *Watcher) {
	store, err := watchNodes(ctx, w)
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.store, n.err = store, err
	n.mu.Unlock()
	w.touch()
}

func watchNodes(ctx context.Context, w *Watcher) (cache.Cache, error) {
	// One plain question first: a watch that fails says nothing.
	if seen := ReadNodes(ctx, w.Reader, w.Key); seen.Err != nil {
		return nil, seen.Err
	}
	text, err := workloadKubeconfig(ctx, w.Reader, w.Key)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	store, err := cache.New(config, cache.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	go func() { _ = store.Start(ctx) }()
	informer, err := store.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	if _, err := informer.AddEventHandler(w.handler()); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return store, nil
}
