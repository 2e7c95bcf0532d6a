package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Plan is a plan with all of its changes.
type Plan struct {
	Workspace string `json:"workspace"`
	infrav1.PlanStatus
	// Directory is the directory of the module of a speculative plan. Such a plan is not
	// stored, so it has neither an ID nor a run.
	Directory string `json:"directory,omitempty"`
	// Resources are all changes with their reasons, or those of the status if the
	// record of the run is not available.
	Resources []terraform.Change `json:"resources,omitempty"`
	// OutputsOnly reports that no resource changes.
	OutputsOnly bool `json:"outputsOnly,omitempty"`
	// Outcome is that of the run that applied the plan, if it was applied.
	Outcome infrav1.RunOutcome `json:"outcome,omitempty"`
	// Details are the changes with values, if they are available.
	Details []change.Entry `json:"details,omitempty"`
}

// PlanOf returns the latest plan of a workspace. It is read from the record of
// its run, or from the status if that was deleted or the user may not read it.
func PlanOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Plan, error) {
	status := apply.Status.Plan
	if status == nil {
		return nil, fmt.Errorf("%s has no plan yet: see captctl history %s", apply.Name, apply.Name)
	}
	plan := planFromStatus(apply.Name, status)
	plan.Outcome = outcomeOf(apply, status)
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(status.Run)}, &secret)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return plan, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", status.Run, err)
	}
	result, err := record.Result(&secret)
	if err != nil {
		return nil, err
	}
	plan.complete(result)
	return plan, nil
}

// PlanOfRun returns the plan that a run made, or the latest plan if run is empty.
func PlanOfRun(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, run string) (*Plan, error) {
	if status := apply.Status.Plan; run == "" || status != nil && status.Run == run {
		return PlanOf(ctx, c, apply)
	}
	secret, err := RunSecret(ctx, c, apply, run)
	if err != nil {
		return nil, err
	}
	result, err := record.Result(secret)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, fmt.Errorf("run %s has not ended: see captctl logs %s --run %s", run, apply.Name, run)
	case result.Plan == nil:
		return nil, fmt.Errorf("run %s made no plan: see captctl history %s", run, apply.Name)
	}
	status := &infrav1.PlanStatus{
		ID: result.Plan.ID, Run: run, CreatedAt: metav1.NewTime(result.StartedAt), Operation: infrav1.PlanApply,
		Add: int32(result.Plan.Add), Change: int32(result.Plan.Change), Destroy: int32(result.Plan.Destroy),
	}
	if result.Operation.Destroys() {
		status.Operation = infrav1.PlanDestroy
	}
	plan := planFromStatus(apply.Name, status)
	plan.Outcome = outcomeOf(apply, status)
	plan.complete(result)
	return plan, nil
}

// outcomeOf returns the outcome of the run that applied a plan, or an empty string if the
// plan was not applied, or it is not known.
func outcomeOf(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) infrav1.RunOutcome {
	i := slices.IndexFunc(apply.Status.History, func(run infrav1.RunRecord) bool { return run.ID == plan.Run })
	if i < 0 || ptr.Deref(plan.Waiting, false) {
		return ""
	}
	run := apply.Status.History[i]
	if !terraform.Operation(run.Operation).SavesPlan() {
		return run.Outcome
	}
	// The next run that applies a plan applies this one, unless another is made before.
	for _, later := range slices.Backward(apply.Status.History[:i]) {
		switch operation := terraform.Operation(later.Operation); {
		case operation.AppliesPlan():
			return later.Outcome
		case operation != terraform.OperationCheckDrift && operation != terraform.OperationStateCommand:
			return ""
		}
	}
	return ""
}

func planFromStatus(workspace string, status *infrav1.PlanStatus) *Plan {
	plan := &Plan{Workspace: workspace, PlanStatus: *status}
	for _, change := range status.Changes {
		plan.Resources = append(plan.Resources, terraform.Change{Address: change.Address, Action: terraform.Action(change.Action)})
	}
	return plan
}

// ErrNoPlans means that the user may not read the changes of a plan.
var ErrNoPlans = errors.New("you may not get WorkspacePlans")

// PlanChanges passes what a plan changes in each resource to emit. It returns false if
// that is not available: the plan is an old one or destroyed the workspace, or it could not
// be stored.
func PlanChanges(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, plan *Plan, emit func(change.Entry) error) (bool, error) {
	shown := &infrav1.WorkspacePlan{}
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: plan.Run}, shown)
	switch {
	case apierrors.IsNotFound(err) || err == nil && shown.Spec.Plan != plan.ID:
		return false, nil
	case apierrors.IsForbidden(err):
		return false, ErrNoPlans
	case err != nil:
		return false, fmt.Errorf("reading the changes of %s: %w", plan.ID, err)
	}
	for _, value := range shown.Spec.Changes {
		var entry change.Entry
		if err := json.Unmarshal(value.Raw, &entry); err != nil {
			return false, fmt.Errorf("reading the changes of %s: %w", plan.ID, err)
		}
		if err := emit(entry); err != nil {
			return false, err
		}
	}
	if omitted := int(shown.Spec.OmittedChanges); omitted > 0 {
		return true, emit(change.Entry{Omitted: omitted})
	}
	return true, nil
}

// ReadDetails adds the changes with values, if they are available.
func (p *Plan) ReadDetails(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	_, err := PlanChanges(ctx, c, apply, p, func(entry change.Entry) error {
		p.Details = append(p.Details, entry)
		return nil
	})
	if errors.Is(err, ErrNoPlans) {
		return nil
	}
	return err
}

// complete replaces the summary of the status by the plan of a run's result.
func (p *Plan) complete(result *terraform.Result) {
	if result != nil && result.Plan != nil && result.Plan.ID == p.ID {
		p.Resources, p.OutputsOnly, p.OmittedChanges = result.Plan.Changes, result.Plan.OutputsOnly, 0
	}
	p.Changes = nil
}
