package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/record"
)

// quietPeriod is how long a restored workspace waits after the last of its Secrets was
// created.
const quietPeriod = 10 * time.Second

// restored waits until the Secrets of a workspace exist that was moved or restored. clusterctl
// creates the workspace first and then its state and its runs, one by one. A history of some of
// them would be wrong, and a run would take the number of one that is missing yet. A
// workspace of a Cluster is paused meanwhile.
func (r *Reconciler) restored(ctx context.Context, s *execution.Scope) error {
	status := &s.Apply.Status
	if !s.ExpectsState() || status.Runs > 0 || len(status.History) > 0 || s.Apply.Labels[clusterv1.ClusterNameLabel] != "" {
		return nil
	}
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(s.Apply.Namespace), client.MatchingFields{runs.WorkspaceIndex: record.LabelValue(s.Apply.Name)})
	if err != nil {
		return fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	newest := s.Apply.CreationTimestamp.Time
	for i := range list.Items {
		if created := list.Items[i].CreationTimestamp.Time; created.After(newest) {
			newest = created
		}
	}
	wait := newest.Add(quietPeriod).Sub(s.Now)
	if wait <= 0 || wait > quietPeriod {
		// The clock of the API server may be ahead.
		return nil
	}
	return fault.WaitFor(wait, infrav1.WaitingForSecretReason, "This workspace was moved or restored: waiting until its state and its runs are complete")
}
