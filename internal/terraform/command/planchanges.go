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
		return change.Read(io.NewSectionReader(shown, 0, 1<<40), mask, emit)
	})
}
