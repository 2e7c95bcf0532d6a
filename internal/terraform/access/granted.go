package access

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
)

// Granted remembers the objects that this process has created for runs, so that they can be
// deleted without reading them first. It is safe for concurrent use.
type Granted struct {
	mu   sync.Mutex
	runs map[grantedRun][]client.Object
}

// grantedRun identifies a run. The next workspace of a name has runs of the same IDs.
type grantedRun struct{ namespace, id, workspaceUID string }

func keyOf(run terraform.Run) grantedRun {
	return grantedRun{run.Namespace, run.ID, run.WorkspaceUID}
}

// add remembers all objects of a run, which are new.
func (g *Granted) add(run terraform.Run, objects []client.Object) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs == nil {
		g.runs = map[grantedRun][]client.Object{}
	}
	g.runs[keyOf(run)] = objects
}

// addTo remembers another object of a run whose objects are known.
func (g *Granted) addTo(run terraform.Run, object client.Object) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if objects, known := g.runs[keyOf(run)]; known {
		g.runs[keyOf(run)] = append(objects, object)
	}
}

// take returns the objects of a run, and forgets them. It returns nil unless they are known.
func (g *Granted) take(run terraform.Run) []client.Object {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	objects := g.runs[keyOf(run)]
	delete(g.runs, keyOf(run))
	return objects
}

// revokeGranted deletes the objects of a run that this process has created. It reports
// whether nothing is left.
func (g Granter) revokeGranted(ctx context.Context, run terraform.Run) bool {
	objects := g.Granted.take(run)
	err := together(objects, func(object client.Object) error {
		return client.IgnoreNotFound(g.Client.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())}))
	})
	return err == nil && len(objects) > 0
}
