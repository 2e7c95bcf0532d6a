package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// RequestOneShot requests a one-shot operation, and sets its ID, UID and time.
func RequestOneShot(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, operation *terraform.OneShot) error {
	if err := CheckOneShot(apply, operation); err != nil {
		return err
	}
	operation.ID, operation.UID, operation.At = uuid.NewString(), string(apply.UID), time.Now().UTC().Truncate(time.Second)
	if err := operation.Validate(); err != nil {
		return err
	}
	return patch(ctx, c, apply, func() { apply.Annotations[infrav1.OneShotAnnotation] = encoded(operation) })
}

// CheckOneShot returns an error if the workspace cannot execute a one-shot operation now.
func CheckOneShot(apply *infrav1.WorkspaceTemplateApply, operation *terraform.OneShot) error {
	if err := checkHosted(apply); err != nil {
		return err
	}
	plan := apply.Status.Plan
	pending, err := terraform.ParseOneShot(apply.Annotations[infrav1.OneShotAnnotation])
	switch {
	case !apply.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is being deleted: nothing but its deletion runs", apply.Name)
	case meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.PausedCondition):
		return fmt.Errorf("%s is paused: resume it first", apply.Name)
	case err == nil && pending.UID == string(apply.UID) && !apply.Status.OneShotEnded(pending.ID):
		return fmt.Errorf("%s has not finished an earlier request (%s): wait for it, approve or reject its plan, or remove it with kubectl annotate wsta %s %s-", apply.Name, pending.Arguments(), apply.Name, infrav1.OneShotAnnotation)
	case operation.RefreshOnly && !operation.PlanOnly && !meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.AppliedCondition):
		return fmt.Errorf("the inputs of %s are not applied: apply them or change them back, then refresh the state", apply.Name)
	case operation.PlanOnly && plan != nil && plan.Waiting != nil && *plan.Waiting:
		return fmt.Errorf("plan %s of %s waits for a decision, and another plan would replace it: see captctl plan %s, or request a new one with captctl retry %s", plan.ID, apply.Name, apply.Name, apply.Name)
	}
	return nil
}

// OneShotResult is what became of a one-shot operation.
type OneShotResult struct {
	Workspace string             `json:"workspace"`
	Request   infrav1.RunRequest `json:"request"`
	// Run is the last run of the operation, or nil if it ended without a run.
	Run *infrav1.RunRecord `json:"run,omitempty"`
	// Waiting is set if the plan waits for approval.
	Waiting bool `json:"waiting,omitempty"`
	// Plan is the plan of the operation, or nil if there is none.
	Plan *Plan `json:"plan,omitempty"`
}

// OneShotEnded reports whether a one-shot operation ended, or its plan waits for approval. It
// returns an error if it is not executed any more.
func OneShotEnded(apply *infrav1.WorkspaceTemplateApply, id string) (bool, error) {
	if apply.Status.OneShotEnded(id) || oneShotWaits(apply, id) {
		return true, nil
	}
	requested, err := terraform.ParseOneShot(apply.Annotations[infrav1.OneShotAnnotation])
	if err != nil || requested.ID != id {
		return false, errors.New("the request was removed or replaced: see captctl history " + apply.Name)
	}
	return false, nil
}

// OneShotDecided reports whether a one-shot operation ended after its plan was approved. If
// that was outdated, another plan waits.
func OneShotDecided(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) (bool, error) {
	ended, err := OneShotEnded(apply, plan.Request.ID)
	if ended && !apply.Status.OneShotEnded(plan.Request.ID) && apply.Status.Plan.ID == plan.ID {
		return false, nil
	}
	return ended, err
}

// oneShotWaits reports whether the plan of a one-shot operation waits for approval.
func oneShotWaits(apply *infrav1.WorkspaceTemplateApply, id string) bool {
	plan := apply.Status.Plan
	return plan != nil && plan.Request != nil && plan.Request.ID == id && plan.Waiting != nil && *plan.Waiting && apply.Status.Run == nil
}

// ResultOf returns what became of a one-shot operation that has ended.
func ResultOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, request infrav1.RunRequest) (*OneShotResult, error) {
	result := &OneShotResult{Workspace: apply.Name, Request: request, Waiting: oneShotWaits(apply, request.ID)}
	if i := slices.IndexFunc(apply.Status.History, func(run infrav1.RunRecord) bool { return run.Request != nil && run.Request.ID == request.ID }); i >= 0 {
		result.Run = &apply.Status.History[i]
		result.Request = *result.Run.Request
	}
	if plan := apply.Status.Plan; plan != nil && plan.Request != nil && plan.Request.ID == request.ID {
		var err error
		if result.Plan, err = PlanOf(ctx, c, apply); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// RemoveOneShot removes a one-shot operation that has ended from the workspace, unless
// another one replaced it.
func RemoveOneShot(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, id string) error {
	return removeAnnotation(ctx, c, apply, infrav1.OneShotAnnotation, func(live *infrav1.WorkspaceTemplateApply) bool {
		operation, err := terraform.ParseOneShot(live.Annotations[infrav1.OneShotAnnotation])
		return err == nil && operation.ID == id && live.Status.OneShotEnded(id)
	})
}
