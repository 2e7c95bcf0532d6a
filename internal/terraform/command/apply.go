package command

import (
	"context"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

// Apply applies exactly the saved plan. It drops arguments that the plan already
// contains, and returns the warnings. After an interruption the state contains the changes made so
// far.
func (s *Session) Apply(ctx context.Context, plan string, args []string) (terraform.Diagnostics, error) {
	s.StopProviders()
	_, args = terraform.SplitArgs(args)
	args = slices.Concat([]string{"apply", "-json", "-input=false"}, s.lockArgs(), s.applyBackupArgs(), args, []string{plan})
	removeUnused, err := s.createStateFiles()
	if err != nil {
		return nil, err
	}
	defer removeUnused()
	var warnings terraform.Diagnostics
	err = s.ready(ctx, func() error {
		output, err := s.stream(ctx, "apply", reserveFor(plan), args, func(events.Event) {})
		if err != nil {
			return err
		}
		if output.code != 0 {
			return s.failure(ctx, "apply", output)
		}
		warnings = output.diagnostics
		return nil
	})
	return warnings, err
}

// applyBackupArgs disables the backup of the state file. If the tool could not write
// it, the state that it prints would have the serial of the saved one.
func (s *Session) applyBackupArgs() []string {
	if s.backend.Type == terraform.BackendKubernetes {
		return []string{"-backup=-"}
	}
	return nil
}
