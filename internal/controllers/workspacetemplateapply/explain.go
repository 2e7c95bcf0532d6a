package workspacetemplateapply

import (
	"context"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
)

// explain returns what prevents a run from starting or ending, as far as its
// executor knows. It returns an empty string if nothing is unusual.
func (e executors) explain(ctx context.Context, run *runRecord) (string, error) {
	explainer, ok := e[run.executor()].(terraform.Explainer)
	if !ok {
		return "", nil
	}
	explanation, err := explainer.Explain(ctx, run.ref())
	if err != nil {
		return "", fmt.Errorf("explaining run %s: %w", run.id, err)
	}
	return explanation, nil
}
