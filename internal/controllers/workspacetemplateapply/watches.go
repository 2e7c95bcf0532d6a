package workspacetemplateapply

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// workspaceIndex finds the Secrets kept beside a workspace.
const workspaceIndex = "capt.workspace"

func (r *Reconciler) index(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Secret{}, workspaceIndex, func(obj client.Object) []string {
		if workspace, found := obj.GetLabels()[infrav1.WorkspaceLabel]; found {
			return []string{workspace}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Secrets by workspace: %w", err)
	}
	return nil
}

// ofCluster finds the workspaces of a Cluster, which pause with it.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &applies, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing workspaces of a Cluster")
		return nil
	}
	var requests []ctrl.Request
	for i := range applies.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&applies.Items[i])})
	}
	return requests
}

// reference is an object that a workspace reads or waits for.
type reference struct {
	kind string
	key  client.ObjectKey
}

// tracker knows which workspaces look at which objects, existing or not, so
// that each waits by watch. It is filled by reconciling: what a workspace reads
// depends on its template and its variables, which no index can see.
type tracker struct {
	mu       sync.Mutex
	watchers map[reference]map[client.ObjectKey]bool
	watched  map[client.ObjectKey][]reference
}

func newTracker() *tracker {
	return &tracker{watchers: map[reference]map[client.ObjectKey]bool{}, watched: map[client.ObjectKey][]reference{}}
}

// set replaces what a workspace looks at. It is called before the objects are
// read: a change between the two is then noticed, not lost.
func (t *tracker) set(workspace client.ObjectKey, refs []reference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ref := range t.watched[workspace] {
		delete(t.watchers[ref], workspace)
		if len(t.watchers[ref]) == 0 {
			delete(t.watchers, ref)
		}
	}
	delete(t.watched, workspace)
	if len(refs) == 0 {
		return
	}
	t.watched[workspace] = refs
	for _, ref := range refs {
		if t.watchers[ref] == nil {
			t.watchers[ref] = map[client.ObjectKey]bool{}
		}
		t.watchers[ref][workspace] = true
	}
}

// mapTo finds the workspaces that look at an object of the kind.
func (t *tracker) mapTo(kind string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		t.mu.Lock()
		defer t.mu.Unlock()
		var requests []ctrl.Request
		for workspace := range t.watchers[reference{kind: kind, key: client.ObjectKeyFromObject(obj)}] {
			requests = append(requests, ctrl.Request{NamespacedName: workspace})
		}
		return requests
	}
}

// WakeUp is an event that brings the workspace of a run back.
func WakeUp(run terraform.Run) event.GenericEvent {
	return wakeUp(run.Namespace, run.Workspace)
}
