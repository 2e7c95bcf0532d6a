package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	// stateInterval is how often a restored workspace reads its state. A state that was
	// restored by hand has no owner, and so no watch event.
	stateInterval = 5 * time.Second
	// quietPeriod is how long a restored workspace waits after the last of its Secrets was
	// created.
	quietPeriod = 10 * time.Second
)

// keepLineage records the lineage of the state where it survives a move to another management
// cluster or a restore. The status does not.
func (s *status) keepLineage() {
	state := s.apply.Status.State
	if state == nil || state.Lineage == "" || s.apply.Annotations[infrav1.StateLineageAnnotation] == state.Lineage {
		return
	}
	if s.apply.Annotations == nil {
		s.apply.Annotations = map[string]string{}
	}
	s.apply.Annotations[infrav1.StateLineageAnnotation] = state.Lineage
}

// expectedLineage returns the lineage of the state that the workspace had before its status
// was lost, or an empty string. Any editor can write it: it is a reason to refuse an empty
// state, and no proof that a state belongs to the workspace.
func (s *workspace) expectedLineage() string {
	if state := s.apply.Status.State; state != nil && state.Lineage != "" {
		return ""
	}
	return record.Shorten(s.apply.Annotations[infrav1.StateLineageAnnotation], maxLineage)
}

// expectsState reports whether the workspace had a state about which the status says nothing,
// and that no user has given up.
func (s *workspace) expectsState() bool {
	known := terraform.KnownState{Expected: s.expectedLineage()}
	return known.Expected != "" && s.apply.Annotations[infrav1.AdoptStateAnnotation] != known.AdoptNothing()
}

// restored waits until the Secrets of a workspace exist that was moved or restored. clusterctl
// creates the workspace first and then its state and its runs, one by one. A history of some of
// them would be wrong, and a run would take the number of one that is missing yet. A
// workspace of a Cluster is paused meanwhile.
func (r *Reconciler) restored(ctx context.Context, s *scope) error {
	status := &s.apply.Status
	if !s.expectsState() || status.Runs > 0 || len(status.History) > 0 || s.apply.Labels[clusterv1.ClusterNameLabel] != "" {
		return nil
	}
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(s.apply.Namespace), client.MatchingFields{workspaceIndex: record.LabelValue(s.apply.Name)})
	if err != nil {
		return fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	newest := s.apply.CreationTimestamp.Time
	for i := range list.Items {
		if created := list.Items[i].CreationTimestamp.Time; created.After(newest) {
			newest = created
		}
	}
	wait := newest.Add(quietPeriod).Sub(s.now)
	if wait <= 0 || wait > quietPeriod {
		// The clock of the API server may be ahead.
		return nil
	}
	return fault.WaitFor(wait, infrav1.WaitingForSecretReason, "This workspace was moved or restored: waiting until its state and its runs are complete")
}

// mayStart returns a fault if no run may start: a user works with the state, or the state was
// lost or is not restored yet. A run would reserve an empty one, and clusterctl would then
// skip the right one.
func (r *execution) mayStart(ctx context.Context, s *scope, next decision) error {
	if err := shellFault(s.apply); err != nil {
		return err
	}
	if !s.expectsState() || s.inputs.Request.Backend.Type != terraform.BackendKubernetes || s.bringsState(next) {
		return nil
	}
	// A state that could not be saved to the Secret is saved by the run.
	if rescued, err := r.rescuedStates(ctx, s.workspace); err != nil || len(rescued) > 0 {
		return err
	}
	known, key := s.knownState(), client.ObjectKey{Namespace: s.apply.Namespace, Name: s.kubernetesBackend().StateSecretName()}
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	empty, found, err := record.StateIsEmpty(&secret)
	if err != nil {
		return nil //nolint:nilerr // A run reports that the state cannot be read.
	}
	if !empty {
		found.Resources = 1
	}
	if known.Compare(found, true) != terraform.StateMissing {
		return nil
	}
	return fault.WaitFor(stateInterval, infrav1.StateMissingReason, "%s", s.missingState(known, key))
}

// bringsState reports whether a run restores the state, or saves what a lost run left before
// the resources are retained.
func (s *scope) bringsState(next decision) bool {
	switch next.operation {
	case terraform.OperationRestoreState, terraform.OperationSaveState:
		return true
	case terraform.OperationStateCommand:
		return s.situation().command.Command == terraform.StatePush
	default:
		return false
	}
}

// missingState explains why no run starts, and what to do.
func (s *scope) missingState(known terraform.KnownState, key client.ObjectKey) string {
	keep := ""
	if !s.apply.DeletionTimestamp.IsZero() {
		keep = "To delete the workspace only, set retainWorkspaceOnDelete: true. "
	}
	return fmt.Sprintf("The annotation %s says that this workspace had a state, but Secret %s is missing or empty: no run starts. Restore the Secret from a backup, or the state with captctl state push or captctl state restore. %sTo start with an empty state and leave the resources to you, set the annotation %s to %s",
		infrav1.StateLineageAnnotation, key, keep, infrav1.AdoptStateAnnotation, known.AdoptNothing())
}
