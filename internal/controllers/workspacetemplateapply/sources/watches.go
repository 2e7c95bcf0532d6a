package sources

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

var (
	// SecretKind is a kind of which only the metadata is watched.
	SecretKind = corev1.SchemeGroupVersion.WithKind("Secret")
	// ConfigMapKind is a kind of which only the metadata is watched.
	ConfigMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

// WorkspacesOfCluster returns the workspaces of a Cluster, which are paused with
// it.
func (r *Resolver) WorkspacesOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{},
		func(*infrav1.WorkspaceTemplateApply) bool { return true },
		client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
}

// Reference is an object that a workspace reads or waits for.
type Reference struct {
	Kind string
	Key  client.ObjectKey
}

// Tracker maps objects to the workspaces that read them, so that watch events end
// the waits of the workspaces. The objects need not exist. Reconciling fills the
// Tracker: the references of a workspace depend on its template and variables,
// which an index does not see.
type Tracker struct {
	mu sync.Mutex
	// readers has the workspaces that read an object.
	readers map[Reference]map[client.ObjectKey]bool
	// references has the objects that a workspace reads.
	references map[client.ObjectKey][]Reference

	// Controller gets the watches of Flux sources when the first workspace has one. watched
	// are their kinds, and metadata watches the metadata of all objects.
	Controller controller.Controller
	Metadata   cache.Cache
	watching   sync.Mutex
	watched    map[string]bool
}

// NewTracker returns a Tracker without references.
func NewTracker() *Tracker {
	return &Tracker{readers: map[Reference]map[client.ObjectKey]bool{}, references: map[client.ObjectKey][]Reference{}, watched: map[string]bool{}}
}

// Set replaces the references of a workspace. It must be called before the
// objects are read, so that no change is missed.
func (t *Tracker) Set(workspace client.ObjectKey, refs []Reference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ref := range t.references[workspace] {
		delete(t.readers[ref], workspace)
		if len(t.readers[ref]) == 0 {
			delete(t.readers, ref)
		}
	}
	delete(t.references, workspace)
	if len(refs) == 0 {
		return
	}
	t.references[workspace] = refs
	for _, ref := range refs {
		if t.readers[ref] == nil {
			t.readers[ref] = map[client.ObjectKey]bool{}
		}
		t.readers[ref][workspace] = true
	}
}

// MapTo returns a function that maps an object of the kind to the workspaces that
// read it.
func (t *Tracker) MapTo(kind string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		t.mu.Lock()
		defer t.mu.Unlock()
		var requests []ctrl.Request
		for workspace := range t.readers[Reference{Kind: kind, Key: client.ObjectKeyFromObject(obj)}] {
			requests = append(requests, ctrl.Request{NamespacedName: workspace})
		}
		return requests
	}
}

// MapGrants maps a grant to the workspaces that read objects of its namespace.
func (t *Tracker) MapGrants(ctx context.Context, granted client.Object) []ctrl.Request {
	return t.MapTo(grantKind)(ctx, &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: granted.GetNamespace()}})
}

// grantKind is the kind of the references to all grants of a namespace, which have no
// name.
const grantKind = "CAPTReferenceGrant"

// WithGrants adds references to the grants of other namespaces that the references need.
func WithGrants(namespace string, refs []Reference) []Reference {
	for _, ref := range slices.Clone(refs) {
		if granted := (Reference{grantKind, client.ObjectKey{Namespace: ref.Key.Namespace}}); ref.Key.Namespace != namespace && !slices.Contains(refs, granted) {
			refs = append(refs, granted)
		}
	}
	return refs
}
