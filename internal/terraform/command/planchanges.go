package command

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/appthrust/capt/internal/terraform/change"
)

// ShownPlan is the tool's description of a saved plan. It is only in an unlinked file,
// because it contains secrets.
type ShownPlan struct {
	file *os.File
	// Mask masks the sensitive values of the plan and the secrets of the run.
	Mask func(text string) string
}

// showGrace is how long a command that describes a plan may continue after it was
// interrupted.
const showGrace = 5 * time.Second

// ShowPlan reads a saved plan. The caller closes the result.
func (s *Session) ShowPlan(ctx context.Context, file string) (*ShownPlan, error) {
	var plan *ShownPlan
	// The command has nothing to save.
	brief := *s
	brief.grace = showGrace
	err := s.reading(ctx, func() error {
		shown, err := brief.captureFile(ctx, "show", []string{"show", "-json", file}, nil)
		if err != nil {
			return err
		}
		plan = &ShownPlan{file: shown}
		secrets, err := change.ReadSecrets(plan.reader(), s.short...)
		if err != nil {
			plan.Close()
			return err
		}
		plan.Mask = func(text string) string { return s.log.redact(secrets.Mask(text)) }
		return nil
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// Close frees the space of the description.
func (p *ShownPlan) Close() { _ = p.file.Close() }

func (p *ShownPlan) reader() io.Reader { return io.NewSectionReader(p.file, 0, 1<<40) }

// Changes passes what the plan changes, attribute by attribute, to emit, with all secrets
// masked.
func (p *ShownPlan) Changes(emit func(change.Entry) error) error {
	return change.Read(p.reader(), p.Mask, emit)
}

// Planned passes the changes with their values, for policies, to emit. Those of a plan that
// only refreshes the state are what drifted.
func (p *ShownPlan) Planned(refreshOnly bool, emit func(change.Planned) error) error {
	return change.ReadPlanned(p.reader(), refreshOnly, emit)
}
