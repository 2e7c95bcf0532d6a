package command

import (
	"context"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
)

// ApplyResult is what an apply did.
type ApplyResult struct {
	Added, Changed, Destroyed int
	// Outputs are all outputs of the root module. The event stream leaves out
	// the values of sensitive ones: take those from the state.
	Outputs     map[string]terraform.Output
	Diagnostics terraform.Diagnostics
}

// NeedsState reports whether the values of some outputs are in the state only.
func (r *ApplyResult) NeedsState() bool {
	for _, output := range r.Outputs {
		if output.Value == nil {
			return true
		}
	}
	return false
}

// Apply applies exactly the kept plan. Arguments that a plan already holds are
// left out. When it is interrupted the state holds what was made until then.
func (s *Session) Apply(ctx context.Context, plan string, args []string) (*ApplyResult, error) {
	_, args = terraform.SplitArgs(args)
	args = slices.Concat([]string{"apply", "-json", "-input=false"}, s.lockArgs(), args, []string{plan})
	var result *ApplyResult
	err := s.ready(ctx, func() error {
		result = &ApplyResult{Outputs: map[string]terraform.Output{}}
		heard, err := s.stream(ctx, "apply", args, result.hear)
		if err != nil {
			return err
		}
		if heard.code != 0 {
			return s.failure(ctx, "apply", heard)
		}
		result.Diagnostics = heard.diagnostics
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

func (r *ApplyResult) hear(event Event) {
	switch {
	case event.Type == eventSummary && event.Changes != nil:
		r.Added = event.Changes.Add
		r.Changed = event.Changes.Change
		r.Destroyed = event.Changes.Remove
	case event.Type == eventOutputs:
		for name, output := range event.Outputs {
			r.Outputs[name] = terraform.Output{Value: output.Value, Type: output.Type, Sensitive: output.Sensitive}
		}
	}
}
