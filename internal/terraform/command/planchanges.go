package command

import (
	"context"
	"io"

	"github.com/appthrust/capt/internal/terraform/change"
)

// PlanChanges reads what a saved plan changes, attribute by attribute, and passes it to
// emit. Sensitive values and the secrets of the run are masked. The tool's output is
// only in an unlinked file.
func (s *Session) PlanChanges(ctx context.Context, file string, emit func(change.Entry) error) error {
	return s.showPlan(ctx, file, func(shown io.Reader, mask func(string) string) error {
		return change.Read(shown, mask, emit)
	})
}

// PlannedChanges reads the changes of a saved plan with their values, for policies, and
// passes them to emit. Those of a plan that only refreshes the state are what drifted. It
// returns a function that masks the values that PlanChanges masks.
func (s *Session) PlannedChanges(ctx context.Context, file string, refreshOnly bool, emit func(change.Planned) error) (mask func(string) string, err error) {
	err = s.showPlan(ctx, file, func(shown io.Reader, masking func(string) string) error {
		mask = masking
		if refreshOnly {
			return change.ReadRefreshed(shown, emit)
		}
		return change.ReadPlanned(shown, emit)
	})
	return mask, err
}

// PlanMask returns a function that masks the sensitive values of a saved plan and the
// secrets of the run.
func (s *Session) PlanMask(ctx context.Context, file string) (mask func(string) string, err error) {
	err = s.showPlan(ctx, file, func(_ io.Reader, masking func(string) string) error {
		mask = masking
		return nil
	})
	return mask, err
}

// showPlan passes the tool's description of a saved plan to read, with a function that
// masks secrets.
func (s *Session) showPlan(ctx context.Context, file string, read func(shown io.Reader, mask func(string) string) error) error {
	return s.ready(ctx, func() error {
		shown, err := s.captureFile(ctx, "show", []string{"show", "-json", file}, nil)
		if err != nil {
			return err
		}
		defer func() { _ = shown.Close() }()
		secrets, err := change.ReadSecrets(io.NewSectionReader(shown, 0, 1<<40))
		if err != nil {
			return err
		}
		mask := func(text string) string { return s.log.redact(secrets.Mask(text)) }
		return read(io.NewSectionReader(shown, 0, 1<<40), mask)
	})
}
