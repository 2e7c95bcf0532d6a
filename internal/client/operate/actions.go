package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Trigger requests that an add-on is applied again. It returns the value of the request, which
// status.handledTrigger has once the request is handled.
func Trigger(ctx context.Context, c client.Client, addon *addonsv1.CAPTAddon) (string, error) {
	request, before := time.Now().UTC().Format(time.RFC3339Nano), addon.DeepCopy()
	metav1.SetMetaDataAnnotation(&addon.ObjectMeta, addonsv1.TriggerAnnotation, request)
	if err := c.Patch(ctx, addon, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("triggering %s: %w", addon.Name, err)
	}
	return request, nil
}

// WaitingPlan returns the plan that waits for approval. If id is not empty, the
// plan must have that ID: users decide only on the plan that they reviewed.
func WaitingPlan(apply *infrav1.WorkspaceTemplateApply, id string) (*infrav1.PlanStatus, error) {
	plan := apply.Status.Plan
	switch {
	case plan == nil || plan.Waiting == nil || !*plan.Waiting:
		return nil, fmt.Errorf("no plan of %s is waiting for approval: see captctl history %s", apply.Name, apply.Name)
	case id != "" && id != plan.ID:
		return nil, fmt.Errorf("plan %s is not waiting for approval; %s is: review it with captctl show plan %s", id, plan.ID, apply.Name)
	}
	return plan, nil
}

// Approve approves a waiting plan and allows it to destroy the given protected resources. The
// comment may be empty.
func Approve(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, allowDestroy []string, comment string) error {
	if plan.PolicyAction == infrav1.PolicyDeny {
		return fmt.Errorf("a policy denies plan %s, so it cannot be approved: see captctl show plan %s", plan.ID, apply.Name)
	}
	if err := CheckProtected(plan, allowDestroy); err != nil {
		return err
	}
	return decide(ctx, c, apply, infrav1.WorkspaceApprovalSpec{Plan: plan.ID, Decision: infrav1.DecisionApprove, AllowDestroy: allowDestroy, Comment: comment})
}

// decide creates a decision about a plan.
func decide(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, spec infrav1.WorkspaceApprovalSpec) error {
	spec.Workspace, spec.WorkspaceUID, spec.Comment = apply.Name, apply.UID, message.OneLine(spec.Comment)
	return create(ctx, c, &infrav1.WorkspaceApproval{ObjectMeta: newMeta(apply), Spec: spec}, "deciding about plan "+spec.Plan, approverRole)
}

// needsApproval reports whether a plan waits until a user approves it. Otherwise only
// the protection holds it back.
func needsApproval(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, policy template.Policy) bool {
	return policy.Approval == infrav1.ApprovalManual || apply.Status.HeldBy != "" || plan.Operation == infrav1.PlanDestroy || plan.Request != nil || plan.PolicyAction == infrav1.PolicyRequireApproval
}

// CheckProtected returns an error if the plan would destroy a protected resource that
// allowDestroy does not list.
func CheckProtected(plan *infrav1.PlanStatus, allowDestroy []string) error {
	blocked := slices.DeleteFunc(slices.Clone(plan.Blocked), func(address string) bool {
		return slices.Contains(allowDestroy, address)
	})
	if len(blocked) > 0 {
		return fmt.Errorf("the plan would destroy or replace protected resources, or does not find them: allow it with --allow-destroy '%s'", strings.Join(plan.Blocked, ","))
	}
	return nil
}

// Reject rejects a waiting plan. The comment may be empty.
func Reject(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, comment string) error {
	policy, err := Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	if plan.PolicyAction == infrav1.PolicyDeny {
		return fmt.Errorf("a policy denies plan %s: there is nothing to reject", plan.ID)
	}
	if !needsApproval(apply, plan, policy) {
		return fmt.Errorf("%s has approval: Auto, and its protected resources already block the plan: there is nothing to reject", apply.Name)
	}
	return decide(ctx, c, apply, infrav1.WorkspaceApprovalSpec{Plan: plan.ID, Decision: infrav1.DecisionReject, Comment: comment})
}

// CurrentRun returns the run that is in progress. If id is not empty, the run
// must have that ID.
func CurrentRun(apply *infrav1.WorkspaceTemplateApply, id string) (*infrav1.RunStatus, error) {
	run := apply.Status.Run
	switch {
	case run == nil:
		return nil, fmt.Errorf("%s has no run in progress: see captctl history %s", apply.Name, apply.Name)
	case id != "" && id != run.ID:
		return nil, fmt.Errorf("run %s is not running; %s is", id, run.ID)
	}
	return run, nil
}

// Cancel requests that a run stops gracefully.
func Cancel(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, run *infrav1.RunStatus) error {
	_, err := request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: run.ID}})
	return err
}

// Retry requests a run.
func Retry(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun})
}

// Restore requests that a snapshot replaces the state. With hold, the plan that
// follows waits for approval.
func Restore(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, snapshot Snapshot, hold bool) (*infrav1.WorkspaceOperation, error) {
	if err := checkUsesState(apply); err != nil {
		return nil, err
	}
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Hold: hold, Restore: &infrav1.RestoreOptions{Snapshot: snapshot.Name}})
}

// Unlock requests a run that breaks a lock, and closes the shells of the workspace, which the
// run would wait for.
func Unlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, lock *Lock) (*infrav1.WorkspaceOperation, error) {
	operation, err := request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: lock.ID}})
	if err != nil {
		return nil, err
	}
	if err := CloseShells(ctx, c, apply); err != nil {
		_, withdrawErr := Withdraw(ctx, c, operation, true)
		return nil, errors.Join(err, withdrawErr)
	}
	return operation, nil
}

// Adopt lets the next run use a state that it would refuse.
func Adopt(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, adopt infrav1.AdoptOptions) (*infrav1.WorkspaceOperation, error) {
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &adopt})
}

// CheckDrift requests a drift check.
func CheckDrift(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
	switch applied := meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.AppliedCondition); {
	case applied:
	case apply.Status.Run != nil:
		return nil, fmt.Errorf("run %s of %s is in progress: check the drift when it has ended", apply.Status.Run.ID, apply.Name)
	case apply.Status.AppliedAt.IsZero():
		return nil, fmt.Errorf("%s was never applied, so there is nothing to compare: see captctl history %s", apply.Name, apply.Name)
	default:
		return nil, fmt.Errorf("the inputs of %s are not applied, so there is nothing to compare: see captctl history %s", apply.Name, apply.Name)
	}
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift})
}
