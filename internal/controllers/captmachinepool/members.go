package captmachinepool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// shortestPause and longestPause bound the time between the end of a run and
	// the next that reads the nodes anew.
	shortestPause = time.Minute
	longestPause  = 30 * time.Minute
	// maxNames is the number of nodes that a message names.
	maxNames = 3
)

// members compares the nodes that the outputs tell of with those in the cluster.
// The cloud replaces nodes by itself, and only a run reads the outputs anew.
func (r *Reconciler) members(ctx context.Context, s *scope) error {
	if !s.settled {
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "The workspace is being applied")
	}
	reader, err := r.nodes.Reader(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	var list corev1.NodeList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	found := compare(s.told, list.Items)
	if !s.desired().ReplicasManagedExternally() && int(s.desired().Replicas()) != len(s.told.list) {
		found.short = fmt.Sprintf("%d of %d", len(s.told.list), s.desired().Replicas())
	}
	request, wait := found.ask(s.told.list, s.lastRun(), s.shortSince(), s.now)
	switch {
	case found.agree():
		return nil
	case s.apply.Annotations[infrav1.RunRequestedAnnotation] == request && s.apply.Status.HandledRequest != request:
		return fault.Wait(infrav1.RefreshingReason, "%s: a run will read the nodes anew", found)
	case s.apply.Status.HandledRequest == request:
		return fault.Wait(infrav1.WaitingForNodeReason, "%s: a run has read the nodes anew and found the same", found)
	case wait > 0:
		return fault.WaitFor(wait, infrav1.WaitingForNodeReason, "%s", found)
	}
	asked := s.apply.DeepCopy()
	metav1.SetMetaDataAnnotation(&asked.ObjectMeta, infrav1.RunRequestedAnnotation, request)
	if err := r.Client.Patch(ctx, asked, client.MergeFrom(s.apply)); err != nil {
		return fmt.Errorf("asking workspace %s for a run: %w", s.apply.Name, err)
	}
	return fault.Wait(infrav1.RefreshingReason, "%s: a run will read the nodes anew", found)
}

// lastRun is when the workspace ended its latest run.
func (s *scope) lastRun() time.Time {
	last := s.apply.Status.AppliedAt.Time
	if history := s.apply.Status.History; len(history) > 0 {
		if ended := history[0].StartedAt.Add(history[0].Duration.Duration); ended.After(last) {
			last = ended
		}
	}
	return last
}

// shortSince is since when there are fewer or more nodes than wanted.
func (s *scope) shortSince() time.Time {
	if c := conditions.Get(s.pool, infrav1.ReplicasReadyCondition); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return s.now
}

// difference is how the nodes that the outputs tell of differ from those in the
// cluster.
type difference struct {
	// missing have no node, extra have one that is not told of.
	missing, extra []string
	// short says how many of the wanted nodes there are, if not all.
	short string
}

// compare finds what differs. Without a selector it is not known which nodes of
// the cluster belong to the pool.
func compare(told outputs, found []corev1.Node) difference {
	var d difference
	there := map[string]bool{}
	selector := labels.SelectorFromSet(told.selector)
	for i := range found {
		id := found[i].Spec.ProviderID
		if id == "" {
			continue
		}
		there[id] = true
		if len(told.selector) > 0 && selector.Matches(labels.Set(found[i].Labels)) && !slices.Contains(told.list, id) {
			d.extra = append(d.extra, id)
		}
	}
	for _, id := range told.list {
		if !there[id] {
			d.missing = append(d.missing, id)
		}
	}
	slices.Sort(d.extra)
	return d
}

func (d difference) agree() bool { return len(d.missing) == 0 && len(d.extra) == 0 && d.short == "" }

// ask is the request for a run that reads the nodes anew, and how long to wait
// before it is made. The same difference asks once: what a run did not change,
// another will not. Only a wanted number that is not reached asks again, after
// longer and longer pauses.
func (d difference) ask(listed []string, lastRun, shortSince, now time.Time) (request string, wait time.Duration) {
	pause, parts := shortestPause, []string{strings.Join(listed, ","), strings.Join(d.missing, ","), strings.Join(d.extra, ",")}
	if d.short != "" {
		pause = min(max(shortestPause, now.Sub(shortSince)/2), longestPause)
		parts = append(parts, d.short, lastRun.UTC().Format(time.RFC3339))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return "nodes-" + hex.EncodeToString(sum[:8]), lastRun.Add(pause).Sub(now)
}

// String tells a person what differs.
func (d difference) String() string {
	var parts []string
	if len(d.missing) > 0 {
		parts = append(parts, "not in the cluster: "+message.List(d.missing, maxNames))
	}
	if len(d.extra) > 0 {
		parts = append(parts, "not among the outputs: "+message.List(d.extra, maxNames))
	}
	if d.short != "" {
		parts = append(parts, d.short+" nodes")
	}
	return strings.Join(parts, "; ")
}
