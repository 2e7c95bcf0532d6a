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
	o := s.PendingMove()
	if o == nil {
		return nil
	}
	move := operation.Move(o)
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
		return r.endMove(ctx, s)
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
		return r.endMove(ctx, s)
	}
	s.MoveFrom = from
	return nil
}

// endMove ends a move of a state that is in the configured backend already.
func (r *Resolver) endMove(ctx context.Context, s *Resolved) error {
	return runs.SetOperation(ctx, r.Client, s.PendingMove(), runs.EndedOperation(s.PendingMove(), infrav1.OperationSucceeded, "The state is in this backend already", s.Now))
}
