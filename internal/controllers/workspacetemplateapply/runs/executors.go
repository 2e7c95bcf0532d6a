package runs

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Retain leaves what the executors keep to the next workspace of the same name.
func (e executors) Retain(ctx context.Context, workspace terraform.WorkspaceRef) error {
	for _, runner := range e {
		if retainer, ok := runner.(terraform.Retainer); ok {
			if err := retainer.Retain(ctx, workspace); err != nil {
				return fmt.Errorf("retaining the working directory: %w", err)
			}
		}
	}
	return nil
}

// Forget removes what the executor of a run keeps for it.
func (e executors) Forget(ctx context.Context, run *Run) error {
	runner, found := e[run.Executor()]
	if !found {
		return nil
	}
	if err := runner.Forget(ctx, run.Ref()); err != nil {
		return fmt.Errorf("forgetting run %s: %w", run.ID, err)
	}
	return nil
}

// Explain returns what prevents a run from starting or ending, as far as its
// executor knows. It returns an empty string if nothing is unusual.
func (e executors) Explain(ctx context.Context, run *Run) (string, error) {
	explainer, ok := e[run.Executor()].(terraform.Explainer)
	if !ok {
		return "", nil
	}
	explanation, err := explainer.Explain(ctx, run.Ref())
	if err != nil {
		return "", fmt.Errorf("explaining run %s: %w", run.ID, err)
	}
	return explanation, nil
}

// executors execute the runs of each executor.
type executors map[infrav1.Executor]terraform.Runner
