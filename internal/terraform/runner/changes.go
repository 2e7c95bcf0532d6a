package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

// maxChanges limits the size of the stored changes of a plan.
const maxChanges = 32 << 20

// storeChanges stores what the plan changes in each resource, for the user who decides
// about the plan. The plan is complete without it, so a failure is only a warning.
func (r *Runner) storeChanges(ctx context.Context, run *execution) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	omitted := 0
	err := run.session.PlanChanges(ctx, r.workdir.PlanFile(), func(entry change.Entry) error {
		if content.Len() > maxChanges {
			omitted++
			return nil
		}
		if run.request.Encryption != "" {
			// The plan and the state are encrypted, so its values must not be stored beside
			// them.
			entry.Hide()
		}
		return encoder.Encode(entry)
	})
	if err == nil && omitted > 0 {
		err = encoder.Encode(change.Entry{Omitted: omitted})
	}
	if err == nil {
		err = r.store(ctx, run, record.ChangesName(run.result.Plan.ID), record.ComponentPlan, content.Bytes())
	}
	if err != nil {
		run.result.Diagnostics = append(run.result.Diagnostics, terraform.Diagnostic{
			Severity: terraform.SeverityWarning, Summary: "The values of the plan are not available",
			Detail: fmt.Sprintf("captctl plan shows only addresses: %v", err),
		})
		run.printf("Warning: the values of the plan are not available: %v", err)
	}
}
