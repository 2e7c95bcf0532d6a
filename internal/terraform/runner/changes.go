package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// maxChanges limits the size of the stored changes of a plan.
const maxChanges = 32 << 20

// appliedTimeout is how long reading the changes of an applied plan may delay the result of
// the run. Storing them may take as long again.
const appliedTimeout = 30 * time.Second

// description is what the tool says about the plan in the plan file.
type description struct {
	// mask masks the sensitive values of the plan and the secrets of the run.
	mask func(text string) string
	// changes are the changes with masked values, as they are stored.
	changes []byte
}

// describing is a command that describes a plan. Its results are set when it ends.
type describing struct {
	ended chan struct{}
	stop  context.CancelFunc
	plan  *description
	err   error
	// alone is set if the command did not run beside an apply.
	alone bool
}

// describer describes the plan in the plan file, and stores its changes.
type describer struct {
	storage *storage
	workdir *command.Workdir
}

// startDescribing describes the plan in the plan file in the background. It needs the
// schemas of all providers, which takes seconds with those of clouds. Decide, if set, is
// called with the plan.
func (c *describer) startDescribing(ctx context.Context, run *execution, session *command.Session, decide func(*command.ShownPlan) error) *describing {
	d := &describing{ended: make(chan struct{})}
	ctx, d.stop = context.WithCancel(ctx)
	go func() {
		defer close(d.ended)
		d.plan, d.err = c.describe(ctx, run, session, decide)
	}()
	return d
}

func (c *describer) describe(ctx context.Context, run *execution, session *command.Session, decide func(*command.ShownPlan) error) (*description, error) {
	shown, err := session.ShowPlan(ctx, c.workdir.PlanFile())
	if err != nil {
		return nil, err
	}
	defer shown.Close()
	if decide != nil {
		if err := decide(shown); err != nil {
			return nil, err
		}
	}
	changes, err := encodeChanges(shown, run.request.Encryption != "")
	if err != nil {
		return nil, err
	}
	return &description{mask: shown.Mask, changes: changes}, nil
}

// described returns the description of the plan in the plan file. A failure is final, except
// that of a command beside an apply: it may have been interrupted with the apply.
func (c *describer) described(ctx context.Context, run *execution) (*description, error) {
	if d := run.description; d != nil {
		select {
		case <-d.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if d.err == nil || d.alone {
			return d.plan, d.err
		}
	}
	return c.describeNow(ctx, run, nil)
}

// describeNow describes the plan in the plan file. It returns when the context ends at the
// latest.
func (c *describer) describeNow(ctx context.Context, run *execution, decide func(*command.ShownPlan) error) (*description, error) {
	run.forgetDescription()
	d := c.startDescribing(ctx, run, run.session, decide)
	d.alone = true
	run.description = d
	select {
	case <-d.ended:
		return d.plan, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// changesExisting reports whether a plan that is applied at once has values that the state
// does not have afterwards. Those of a destruction would be deleted with the workspace.
func (run *execution) changesExisting() bool {
	return !run.request.Operation.Destroys() && slices.ContainsFunc(run.changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionCreate && c.Action != terraform.ActionRead
	})
}

// describeBeside describes the plan in the plan file while it is applied, unless the memory
// may not suffice for both: then it is described afterwards.
func (c *describer) describeBeside(ctx context.Context, run *execution) {
	run.storesApplied = true
	// Without the limit of a pod, the other runs on the machine need as much memory.
	peak, limit := host.MemoryPeak()
	if run.description == nil && (limit == 0 || 2*peak < limit) {
		run.description = c.startDescribing(ctx, run, run.session.Beside(), nil)
	}
}

// forgetDescription stops the description of a plan that is replaced.
func (run *execution) forgetDescription() {
	if run.description == nil {
		return
	}
	run.description.stop()
	<-run.description.ended
	run.description = nil
}

// storeApplied stores what an applied plan changed, also if the apply failed or was
// interrupted.
func (c *describer) storeApplied(ctx context.Context, run *execution) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appliedTimeout)
	defer cancel()
	if err := c.tryStoreChanges(ctx, run); err != nil {
		run.printf("Warning: the values of the plan are not available: %v", err)
	}
}

// storeChanges stores what the plan changes in each resource, for the user who decides
// about the plan. The plan is complete without it, so a failure is only a warning.
func (c *describer) storeChanges(ctx context.Context, run *execution) {
	if err := c.tryStoreChanges(ctx, run); err != nil {
		run.result.Diagnostics = append(run.result.Diagnostics, terraform.Diagnostic{
			Severity: terraform.SeverityWarning, Summary: "The values of the plan are not available",
			Detail: fmt.Sprintf("captctl plan shows only addresses: %v", err),
		})
		run.printf("Warning: the values of the plan are not available: %v", err)
	}
}

func (c *describer) tryStoreChanges(ctx context.Context, run *execution) error {
	plan, err := c.described(ctx, run)
	if err != nil {
		return err
	}
	return retry(ctx, appliedTimeout, "storing the changes", isPermanent, func(ctx context.Context) error {
		return c.storage.store(ctx, run, record.ChangesName(run.result.Plan.ID), record.ComponentPlan, plan.changes, nil)
	})
}

// encodeChanges returns the changes of a plan as they are stored. Hidden changes have no
// values: the plan and the state are encrypted, so their values must not be stored beside
// them.
func encodeChanges(plan *command.ShownPlan, hidden bool) ([]byte, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	omitted := 0
	err := plan.Changes(func(entry change.Entry) error {
		if content.Len() > maxChanges {
			omitted++
			return nil
		}
		if hidden {
			entry.Hide()
		}
		return encoder.Encode(entry)
	})
	if err == nil && omitted > 0 {
		err = encoder.Encode(change.Entry{Omitted: omitted})
	}
	return content.Bytes(), err
}
