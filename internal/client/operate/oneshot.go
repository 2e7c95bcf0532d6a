package operate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/operation"
)

// RunOnce requests a run with options. Its ID is that of the operation.
func RunOnce(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, once *terraform.OneShot) (*infrav1.WorkspaceOperation, error) {
	options := &infrav1.RunOptions{
		PlanOnly: once.PlanOnly, RefreshOnly: once.RefreshOnly,
		Replace: addresses(once.Replace), Target: addresses(once.Target),
	}
	for _, i := range once.Import {
		options.Import = append(options.Import, infrav1.ImportedResource{Address: i.Address, ID: i.ID})
	}
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, Hold: once.Hold, Run: options})
}

func addresses(texts []string) []infrav1.AddressString {
	var list []infrav1.AddressString
	for _, text := range texts {
		list = append(list, infrav1.AddressString(text))
	}
	return list
}

// CheckOneShot returns an error if the workspace cannot execute a one-shot operation now.
func CheckOneShot(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, once *terraform.OneShot) error {
	if err := checkHosted(apply); err != nil {
		return err
	}
	earlier, err := operations(ctx, c, apply, func(o *infrav1.WorkspaceOperation) bool { return o.Spec.HasOptions() && !o.Ended() })
	plan := apply.Status.Plan
	switch {
	case err != nil:
		return err
	case !apply.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is being deleted: nothing but its deletion runs", apply.Name)
	case meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.PausedCondition):
		return fmt.Errorf("%s is paused: resume it first", apply.Name)
	case len(earlier) > 0:
		return fmt.Errorf("%s has not finished an earlier request (%s): wait for it, approve or reject its plan, or withdraw it with kubectl delete wso %s", apply.Name, operation.OneShot(earlier[0]).Arguments(), earlier[0].Name)
	case once.RefreshOnly && !once.PlanOnly && !meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.AppliedCondition):
		return fmt.Errorf("the inputs of %s are not applied: apply them or change them back, then refresh the state", apply.Name)
	case once.PlanOnly && plan != nil && plan.Waiting != nil && *plan.Waiting:
		return fmt.Errorf("plan %s of %s waits for a decision, and another plan would replace it: see captctl show plan %s, or request a new one with captctl reconcile %s", plan.ID, apply.Name, apply.Name, apply.Name)
	}
	return nil
}

// OneShotResult is what became of a one-shot operation.
type OneShotResult struct {
	Workspace string             `json:"workspace"`
	Request   infrav1.RunRequest `json:"request"`
	// Run is the last run of the operation, or nil if it ended without a run.
	Run *infrav1.RunRecord `json:"run,omitempty"`
	// Message says how the operation ended, or what it waits for.
	Message string `json:"message,omitempty"`
	// Waiting is set if the plan waits for approval.
	Waiting bool `json:"waiting,omitempty"`
	// Plan is the plan of the operation, or nil if there is none.
	Plan *Plan `json:"plan,omitempty"`
}

// OneShotOf returns the operation of a plan that was requested.
func OneShotOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) (*infrav1.WorkspaceOperation, error) {
	found, err := operations(ctx, c, apply, func(o *infrav1.WorkspaceOperation) bool { return string(o.UID) == plan.Request.ID })
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the request of plan %s was deleted, so the plan is not applied: see captctl history %s", plan.ID, apply.Name)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// ResultOf returns what became of a run with options that has ended, or whose plan waits.
func ResultOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, o *infrav1.WorkspaceOperation) (*OneShotResult, error) {
	id := string(o.UID)
	result := &OneShotResult{
		Workspace: apply.Name, Request: infrav1.RunRequest{ID: id, Arguments: operation.OneShot(o).Arguments(), RequestedBy: o.Spec.RequestedBy},
		Waiting: o.Status.Phase == infrav1.OperationWaitingForApproval, Message: o.Status.Message,
	}
	if i := slices.IndexFunc(apply.Status.History, func(run infrav1.RunRecord) bool { return run.Request != nil && run.Request.ID == id }); i >= 0 {
		result.Run = &apply.Status.History[i]
	}
	if plan := apply.Status.Plan; plan != nil && plan.Request != nil && plan.Request.ID == id {
		var err error
		if result.Plan, err = PlanOf(ctx, c, apply); err != nil {
			return nil, err
		}
	}
	return result, nil
}
