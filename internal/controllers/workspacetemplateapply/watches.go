package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform"
)

// workspaceIndex is the index of Secrets by their workspace.
const workspaceIndex = "capt.workspace"

func (r *Reconciler) index(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Secret{}, workspaceIndex, workspaceOf); err != nil {
		return fmt.Errorf("indexing Secrets by workspace: %w", err)
	}
	return nil
}

// workspaceOf returns the label of the workspace that an object belongs to.
func workspaceOf(obj client.Object) []string {
	if workspace, found := obj.GetLabels()[infrav1.WorkspaceLabel]; found {
		return []string{workspace}
	}
	return nil
}

// workspacesOfCluster returns the workspaces of a Cluster, which are paused with
// it.
func (r *resolver) workspacesOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{},
		func(*infrav1.WorkspaceTemplateApply) bool { return true },
		client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
}

// reference is an object that a workspace reads or waits for.
type reference struct {
	kind string
	key  client.ObjectKey
}

// tracker maps objects to the workspaces that read them, so that watch events end
// the waits of the workspaces. The objects need not exist. Reconciling fills the
// tracker: the references of a workspace depend on its template and variables,
// which an index does not see.
type tracker struct {
	mu sync.Mutex
	// readers has the workspaces that read an object.
	readers map[reference]map[client.ObjectKey]bool
	// references has the objects that a workspace reads.
	references map[client.ObjectKey][]reference

	// controller gets the watches of Flux sources when the first workspace has one. watched
	// are their kinds, and metadata watches the metadata of all objects.
	controller controller.Controller
	metadata   cache.Cache
	watching   sync.Mutex
	watched    map[string]bool
}

func newTracker() *tracker {
	return &tracker{readers: map[reference]map[client.ObjectKey]bool{}, references: map[client.ObjectKey][]reference{}, watched: map[string]bool{}}
}

// set replaces the references of a workspace. It must be called before the
// objects are read, so that no change is missed.
func (t *tracker) set(workspace client.ObjectKey, refs []reference) {
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

// mapTo returns a function that maps an object of the kind to the workspaces that
// read it.
func (t *tracker) mapTo(kind string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		t.mu.Lock()
		defer t.mu.Unlock()
		var requests []ctrl.Request
		for workspace := range t.readers[reference{kind: kind, key: client.ObjectKeyFromObject(obj)}] {
			requests = append(requests, ctrl.Request{NamespacedName: workspace})
		}
		return requests
	}
}

// mapGrants maps a grant to the workspaces that read objects of its namespace.
func (t *tracker) mapGrants(ctx context.Context, granted client.Object) []ctrl.Request {
	return t.mapTo(grantKind)(ctx, &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: granted.GetNamespace()}})
}

// grantKind is the kind of the references to all grants of a namespace, which have no
// name.
const grantKind = "CAPTReferenceGrant"

// withGrants adds references to the grants of other namespaces that the references need.
func withGrants(namespace string, refs []reference) []reference {
	for _, ref := range slices.Clone(refs) {
		if granted := (reference{grantKind, client.ObjectKey{Namespace: ref.key.Namespace}}); ref.key.Namespace != namespace && !slices.Contains(refs, granted) {
			refs = append(refs, granted)
		}
	}
	return refs
}

// RunExit returns the event for Reconciler.RunExits that triggers the reconcile of
// the workspace of a run.
func RunExit(run terraform.Run) event.GenericEvent {
	return workspaceEvent(run.Namespace, run.Workspace)
}
