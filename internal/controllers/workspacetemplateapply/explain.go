package workspacetemplateapply

import (
	"context"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
)

// explain says what is out of the ordinary about a run, as far as its executor
// knows; nothing when all is as usual.
func (r *Reconciler) explain(ctx context.Context, run *runRecord) (string, error) {
	explainer, ok := r.Runners[run.executor()].(terraform.Explainer)
	if !ok {
		return "", nil
	}
	why, err := explainer.Explain(ctx, run.ref())
	if err != nil {
		return "", fmt.Errorf("looking at run %s: %w", run.id, err)
	}
	return why, nil
}
