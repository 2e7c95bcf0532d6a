package sources

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/operation"
	"github.com/appthrust/capt/internal/terraform/template"
)

// RequestedMove returns the user's request to move the state to the provider config
// of the workspace, or nil if there is none that was not handled.
func (s *Resolved) RequestedMove() *terraform.Move {
	move, err := terraform.ParseMove(s.Apply.Annotations[infrav1.MoveStateAnnotation])
	if o := s.PendingMove(); o != nil {
		move, err = operation.Move(o), nil
	}
	if err != nil || move.ID == s.Apply.Status.HandledMove {
		return nil
	}
	if key := s.providerConfigKey(); key == nil && move.To != "" || key != nil && move.To != key.Name {
		return nil
	}
	return move
}

// ResolvedMove returns the move that the next run executes, or nil.
func (s *Resolved) ResolvedMove() *terraform.Move {
	if s.MoveFrom == nil {
		return nil
	}
	return s.RequestedMove()
}

// ResolveMove resolves the inputs of the backend that has the state, if the user
// requested to move it.
func (r *Resolver) ResolveMove(ctx context.Context, s *Resolved) error {
	s.MoveFrom = nil
	state := s.Apply.Status.State
	move := s.RequestedMove()
	if move == nil {
		return nil
	}
	configured := runs.BackendName(s.Inputs.Request.Backend)
	if !runs.InUse(state) || state.Backend == "" || runs.BackendOf(state) == configured {
		// There is nothing to move.
		s.Apply.Status.HandledMove = move.ID
		return nil
	}
	sources := template.Sources{Apply: s.Apply, Template: s.Sources.Template}
	if move.From != "" {
		if err := r.readProviderConfig(ctx, &sources, client.ObjectKey{Namespace: s.Apply.Namespace, Name: move.From}); err != nil {
			return err
		}
	}
	if err := r.ReadValues(ctx, &sources, template.ReferencesOf(sources)); err != nil {
		return err
	}
	from, err := template.Resolve(sources)
	if err != nil {
		return InputsFault(err)
	}
	if state.Backend == terraform.BackendKubernetes {
		// Every workspace has this backend, whatever its provider config.
		from.Request.Backend = s.KubernetesBackend()
	}
	switch name := runs.BackendName(from.Request.Backend); {
	case runs.BackendOf(state) != name:
		return fault.Stall(infrav1.InvalidStateCommandReason,
			"The state is in backend %s and cannot be moved, because WorkspaceProviderConfig %q has backend %s: restore its configuration, or change spec.providerConfigRef back",
			runs.BackendOf(state), move.From, name)
	case name == configured:
		s.Apply.Status.HandledMove = move.ID
		return nil
	}
	s.MoveFrom = from
	return nil
}
