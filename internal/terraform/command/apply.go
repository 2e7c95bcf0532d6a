package command

import (
	"context"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
)

// ApplyResult is the result of an apply.
type ApplyResult struct {
	Added, Changed, Destroyed int
	// Outputs are all outputs of the root module. The event stream omits the
	// values of sensitive outputs: read those from the state.
	Outputs     map[string]terraform.Output
	Diagnostics terraform.Diagnostics
}

// Apply applies exactly the saved plan. It drops arguments that the plan already
// contains. After an interruption the state contains the changes made so far.
func (s *Session) Apply(ctx context.Context, plan string, args []string) (*ApplyResult, error) {
	s.StopProviders()
	_, args = terraform.SplitArgs(args)
	args = slices.Concat([]string{"apply", "-json", "-input=false"}, s.lockArgs(), s.applyBackupArgs(), args, []string{plan})
	removeUnused, err := s.createStateFiles()
	if err != nil {
		return nil, err
	}
	defer removeUnused()
	var result *ApplyResult
	err = s.ready(ctx, func() error {
		result = &ApplyResult{Outputs: map[string]terraform.Output{}}
		output, err := s.stream(ctx, "apply", reserveFor(plan), args, result.observe)
		if err != nil {
			return err
		}
		if output.code != 0 {
			return s.failure(ctx, "apply", output)
		}
		result.Diagnostics = output.diagnostics
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// applyBackupArgs disables the backup of the state file. If the tool could not write
// it, the state that it prints would have the serial of the saved one.
func (s *Session) applyBackupArgs() []string {
	if s.backend.Type == terraform.BackendKubernetes {
		return []string{"-backup=-"}
	}
	return nil
}

// observe adds an event of the apply to the result.
func (r *ApplyResult) observe(event Event) {
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
