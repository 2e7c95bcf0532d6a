package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// storeTimeout is how long storing the changes of a plan may take.
const storeTimeout = 30 * time.Second

// description is what the tool says about the plan in the plan file.
type description struct {
	// mask masks the sensitive values of the plan and the secrets of the run.
	mask func(text string) string
	// changes are the changes with masked values, as they are stored.
	changes []byte
}

// describer describes the plan in the plan file, and stores its changes.
type describer struct {
	storage *storage
	workdir *command.Workdir
}

// describe describes the plan in the plan file. It needs the schemas of all providers,
// which takes seconds with those of clouds. Decide, if set, is called with the plan.
func (d *describer) describe(ctx context.Context, run *execution, decide func(*command.ShownPlan) error) (*description, error) {
	shown, err := run.session.ShowPlan(ctx, d.workdir.PlanFile())
	if err != nil {
		return nil, err
	}
	defer shown.Close()
	if decide != nil {
		if err := decide(shown); err != nil {
			return nil, err
		}
	}
	changes, err := encodeChanges(shown.Changes, run.request.Encryption != "")
	if err != nil {
		return nil, err
	}
	run.description = &description{mask: shown.Mask, changes: changes}
	return run.description, nil
}

// described returns the description of the plan in the plan file.
func (d *describer) described(ctx context.Context, run *execution) (*description, error) {
	if run.description != nil {
		return run.description, nil
	}
	return d.describe(ctx, run, nil)
}

// changesExisting reports whether a plan that is applied at once has values that the state
// does not have afterwards. Those of a destruction would be deleted with the workspace.
func (run *execution) changesExisting() bool {
	return !run.request.Operation.Destroys() && slices.ContainsFunc(run.changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionCreate && c.Action != terraform.ActionRead
	})
}

// storeChanges stores what the plan changes in each resource, for users. The plan is
// complete without it, so a failure is only a warning.
func (d *describer) storeChanges(ctx context.Context, run *execution) {
	plan, err := d.described(ctx, run)
	if err == nil {
		err = retry(ctx, storeTimeout, "storing the changes", isPermanent, func(ctx context.Context) error {
			return d.storage.store(ctx, run, record.ChangesName(run.result.Plan.ID), record.ComponentPlan, plan.changes, nil)
		})
	}
	if err == nil {
		return
	}
	run.result.Diagnostics = append(run.result.Diagnostics, terraform.Diagnostic{
		Severity: terraform.SeverityWarning, Summary: "The values of the plan are not available",
		Detail: fmt.Sprintf("captctl show plan shows only addresses: %v", err),
	})
	run.printf("Warning: the values of the plan are not available: %v", err)
}

// encodeChanges returns the changes of a plan as they are stored. In a large plan, attributes that
// do not fit are omitted: what the plan destroys must not be missing because of the attributes of
// something else. Hidden changes have no values: the plan and the state are encrypted, so their
// values must not be stored beside them.
func encodeChanges(read func(emit func(change.Entry) error) error, hidden bool) ([]byte, error) {
	var whole, bare [][]byte
	size, reserved, omitted := 0, 0, 0
	err := read(func(entry change.Entry) error {
		if hidden {
			entry.Hide()
		}
		line, err := encodeLine(entry)
		if err != nil {
			return err
		}
		short, err := encodeLine(entry.WithoutAttributes())
		if err != nil {
			return err
		}
		if len(bare) == change.MaxEntries || reserved+len(short) > change.MaxStored {
			omitted++
			return nil
		}
		reserved += len(short)
		if size+len(line) > change.MaxStored {
			line = short
		}
		size += len(line)
		whole, bare = append(whole, line), append(bare, short)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	for i, line := range whole {
		if reserved -= len(bare[i]); content.Len()+len(line)+reserved > change.MaxStored {
			line = bare[i]
		}
		content.Write(line)
	}
	if omitted == 0 {
		return content.Bytes(), nil
	}
	last, err := encodeLine(change.Entry{Omitted: omitted})
	return append(content.Bytes(), last...), err
}

func encodeLine(entry change.Entry) ([]byte, error) {
	line, err := json.Marshal(entry)
	if err != nil {
		return nil, fmt.Errorf("encoding a change: %w", err)
	}
	return append(line, '\n'), nil
}
