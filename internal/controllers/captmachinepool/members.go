package captmachinepool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// minPause and maxPause limit the time between the end of a run and the next
	// run that refreshes the list of nodes.
	minPause = time.Minute
	maxPause = 30 * time.Minute
	// maxNames is the number of nodes that a message names.
	maxNames = 3
)

// members observes the nodes of the pool. With a selector it follows those in the
// cluster. Without one only the outputs have the nodes, and only a run refreshes the
// outputs, so members requests one if they differ.
func (r *Reconciler) members(ctx context.Context, s *scope) error {
	if !s.applied && len(s.outputs.selector) == 0 {
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
	if len(s.outputs.selector) == 0 {
		return r.refresh(ctx, s, list.Items)
	}
	err = s.follow(list.Items)
	if s.isWrongSize() {
		existing := s.pool.Spec.ProviderIDList
		return r.request(ctx, s, difference{wrongSize: fmt.Sprintf("%d of %d", len(existing), s.desired().Replicas())}, existing)
	}
	return err
}

// refresh requests a run if nodes of the outputs are not in the cluster.
func (r *Reconciler) refresh(ctx context.Context, s *scope, found []corev1.Node) error {
	diff := compare(s.outputs, found)
	if !s.desired().ReplicasManagedExternally() && int(s.desired().Replicas()) != len(s.outputs.list) {
		diff.wrongSize = fmt.Sprintf("%d of %d", len(s.outputs.list), s.desired().Replicas())
	}
	return r.request(ctx, s, diff, s.outputs.list)
}

// request requests a run that corrects a difference to a list of nodes.
func (r *Reconciler) request(ctx context.Context, s *scope, diff difference, list []string) error {
	if diff.empty() {
		return nil
	}
	name, wait := diff.refreshRequest(list, s.lastRun(), s.wrongSizeSince(), s.now)
	run := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: s.apply.Namespace, Name: s.apply.Name + "-" + name}}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(run), run)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading operation %s: %w", run.Name, err)
	case err == nil && run.Ended():
		return fault.Wait(infrav1.WaitingForNodeReason, "%s: a run has refreshed the list of nodes without a change", diff)
	case err == nil:
		return fault.Wait(infrav1.RefreshingReason, "%s: a run will %s", diff, diff.purpose())
	case wait > 0:
		return fault.WaitFor(wait, infrav1.WaitingForNodeReason, "%s", diff)
	}
	run.Spec = infrav1.WorkspaceOperationSpec{Workspace: s.apply.Name, WorkspaceUID: s.apply.UID, Type: infrav1.OperationRun}
	// The cache may not have it yet.
	if err := r.Client.Create(ctx, run); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("requesting a run of workspace %s: %w", s.apply.Name, err)
	}
	return fault.Wait(infrav1.RefreshingReason, "%s: a run will %s", diff, diff.purpose())
}

// lastRun returns when the latest run of the workspace ended.
func (s *scope) lastRun() time.Time {
	last := s.apply.Status.AppliedAt.Time
	if history := s.apply.Status.History; len(history) > 0 {
		if ended := history[0].StartedAt.Add(history[0].Duration.Duration); ended.After(last) {
			last = ended
		}
	}
	return last
}

// wrongSizeSince returns since when the number of nodes is not the desired one.
func (s *scope) wrongSizeSince() time.Time {
	if c := conditions.Get(s.pool, infrav1.ReplicasReadyCondition); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return s.now
}

// difference is the difference between the nodes of the outputs and those in the
// cluster.
type difference struct {
	// missing are provider IDs of the outputs without a node.
	missing []string
	// wrongSize is the existing and the desired number of nodes, if they differ.
	wrongSize string
}

// compare compares the outputs with the nodes of the cluster. Without a selector
// it is unknown which further nodes belong to the pool.
func compare(out outputs, found []corev1.Node) difference {
	var d difference
	existing := map[string]bool{}
	for i := range found {
		existing[found[i].Spec.ProviderID] = true
	}
	for _, id := range out.list {
		if !existing[id] {
			d.missing = append(d.missing, id)
		}
	}
	return d
}

func (d difference) empty() bool {
	return len(d.missing) == 0 && d.wrongSize == ""
}

// refreshRequest returns the name of the request for a run that refreshes the list of
// nodes, and how long to wait before it is made. The same difference leads to the same
// name, and so to one run: if the run did not resolve it, another one will not.
// Only a wrong number of nodes leads to further runs, after growing pauses.
func (d difference) refreshRequest(list []string, lastRun, wrongSizeSince, now time.Time) (name string, wait time.Duration) {
	pause, parts := minPause, []string{strings.Join(list, ","), strings.Join(d.missing, ",")}
	if d.wrongSize != "" {
		pause = min(max(minPause, now.Sub(wrongSizeSince)/2), maxPause)
		parts = append(parts, d.wrongSize, lastRun.UTC().Format(time.RFC3339))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return "nodes-" + hex.EncodeToString(sum[:8]), lastRun.Add(pause).Sub(now)
}

// purpose describes what a run does about the difference.
func (d difference) purpose() string {
	if d.wrongSize != "" {
		return "correct the number of nodes"
	}
	return "refresh the list of nodes"
}

// String describes the difference.
func (d difference) String() string {
	var parts []string
	if len(d.missing) > 0 {
		parts = append(parts, "nodes not in the cluster: "+message.List(d.missing, maxNames))
	}
	if d.wrongSize != "" {
		parts = append(parts, d.wrongSize+" nodes exist")
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
