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
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Trigger requests that an add-on is applied again. It returns the value of the request, which
// status.handledTrigger has once the request is handled.
func Trigger(ctx context.Context, c client.Client, addon *addonsv1.CAPTAddon) (string, error) {
	request, before := newRequest(), addon.DeepCopy()
	metav1.SetMetaDataAnnotation(&addon.ObjectMeta, addonsv1.TriggerAnnotation, request)
	if err := c.Patch(ctx, addon, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("triggering %s: %w", addon.Name, err)
	}
	return request, nil
}

// patch edits a workspace and writes the difference.
func patch(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, edit func()) error {
	before := apply.DeepCopy()
	if apply.Annotations == nil {
		apply.Annotations = map[string]string{}
	}
	edit()
	if err := c.Patch(ctx, apply, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating workspace %s: %w", apply.Name, err)
	}
	return nil
}

// WaitingPlan returns the plan that waits for approval. If id is not empty, the
// plan must have that ID: users decide only on the plan that they reviewed.
func WaitingPlan(apply *infrav1.WorkspaceTemplateApply, id string) (*infrav1.PlanStatus, error) {
	plan := apply.Status.Plan
	switch {
	case plan == nil || plan.Waiting == nil || !*plan.Waiting:
		return nil, fmt.Errorf("no plan of %s is waiting for approval: see captctl history %s", apply.Name, apply.Name)
	case id != "" && id != plan.ID:
		return nil, fmt.Errorf("plan %s is not waiting for approval; %s is: review it with captctl plan %s", id, plan.ID, apply.Name)
	}
	return plan, nil
}

// maxComment is the size of a comment, in bytes.
const maxComment = 1000

// setComment stores what a user wrote about a plan, and removes what was written about
// another one.
func setComment(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, comment string) {
	delete(apply.Annotations, infrav1.CommentAnnotation)
	if comment = message.OneLine(comment); comment != "" {
		apply.Annotations[infrav1.CommentAnnotation] = plan.ID + " " + comment
	}
}

func checkComment(comment string) error {
	if len(message.OneLine(comment)) > maxComment {
		return fmt.Errorf("the comment is longer than %d bytes", maxComment)
	}
	return nil
}

// Approve approves a waiting plan and allows the given protected resources to be
// destroyed. The comment may be empty.
func Approve(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, allowDestroy []string, comment string) error {
	if plan.PolicyAction == infrav1.PolicyDeny {
		return fmt.Errorf("a policy denies plan %s, so it cannot be approved: see captctl plan %s", plan.ID, apply.Name)
	}
	if err := errors.Join(checkComment(comment), CheckProtected(apply, plan, allowDestroy)); err != nil {
		return err
	}
	policy, err := Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	return patch(ctx, c, apply, func() {
		approve(apply, plan, needsApproval(plan, policy), allowDestroy)
		setComment(apply, plan, comment)
	})
}

// needsApproval reports whether a plan waits until a user approves it. Otherwise only
// the protection holds it back.
func needsApproval(plan *infrav1.PlanStatus, policy template.Policy) bool {
	return policy.Approval == infrav1.ApprovalManual || plan.Operation == infrav1.PlanDestroy || plan.Request != nil || plan.PolicyAction == infrav1.PolicyRequireApproval
}

// approve sets the fields that approve a plan. If only the protection holds it back,
// spec.approvedPlan stays as it is.
func approve(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, needed bool, allowDestroy []string) {
	if len(allowDestroy) > 0 {
		apply.Annotations[infrav1.AllowDestroyAnnotation] = strings.Join(allowedAddresses(apply, allowDestroy), ",")
	}
	if needed {
		apply.Spec.ApprovedPlan = plan.ID
	}
	if apply.Annotations[infrav1.RejectPlanAnnotation] == plan.ID {
		delete(apply.Annotations, infrav1.RejectPlanAnnotation)
	}
}

// CheckProtected returns an error if the plan would destroy a protected resource
// that neither the workspace's annotation nor allowDestroy lists.
func CheckProtected(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, allowDestroy []string) error {
	allowed := allowedAddresses(apply, allowDestroy)
	blocked := slices.DeleteFunc(slices.Clone(plan.Blocked), func(address string) bool {
		return slices.Contains(allowed, address)
	})
	if len(blocked) > 0 {
		return fmt.Errorf("the plan would destroy or replace protected resources, or does not find them: allow it with --allow-destroy '%s'", strings.Join(blocked, ","))
	}
	return nil
}

// allowedAddresses returns the protected addresses that may be destroyed: those
// of the workspace's annotation, then the new ones.
func allowedAddresses(apply *infrav1.WorkspaceTemplateApply, allowDestroy []string) []string {
	addresses := terraform.ParseAddresses(apply.Annotations[infrav1.AllowDestroyAnnotation])
	for _, address := range allowDestroy {
		if !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Reject rejects a waiting plan. The comment may be empty.
func Reject(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, comment string) error {
	if err := checkComment(comment); err != nil {
		return err
	}
	policy, err := Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	if plan.PolicyAction == infrav1.PolicyDeny {
		return fmt.Errorf("a policy denies plan %s: there is nothing to reject", plan.ID)
	}
	if !needsApproval(plan, policy) {
		return fmt.Errorf("%s has approval: Auto, and its protected resources already block the plan: there is nothing to reject", apply.Name)
	}
	return patch(ctx, c, apply, func() {
		apply.Annotations[infrav1.RejectPlanAnnotation] = plan.ID
		setComment(apply, plan, comment)
	})
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
	return patch(ctx, c, apply, func() { apply.Annotations[infrav1.CancelRunAnnotation] = run.ID })
}

// newRequest returns a new value for an annotation that requests an action. A
// value that differs from the last handled one starts the action.
func newRequest() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// Retry requests a run. It returns the value of the request, which
// status.handledRequest has once the request is handled.
func Retry(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	request := newRequest()
	return request, patch(ctx, c, apply, func() { apply.Annotations[infrav1.RunRequestedAnnotation] = request })
}

// Restore requests that a snapshot replaces the state. With hold, the plan that
// follows waits for approval.
func Restore(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, snapshot Snapshot, hold bool) error {
	if err := checkUsesState(apply); err != nil {
		return err
	}
	last, _, _ := strings.Cut(apply.Annotations[infrav1.RestoreSnapshotAnnotation], "@")
	if apply.Status.HandledRestore == snapshot.Name && last == snapshot.Name {
		return errors.New("this snapshot was restored last, and a snapshot cannot be restored twice in a row: restore another one first")
	}
	return patch(ctx, c, apply, func() {
		if hold {
			apply.Spec.Approval = infrav1.ApprovalManual
		}
		apply.Annotations[infrav1.RestoreSnapshotAnnotation] = snapshot.Name + "@" + string(apply.UID)
	})
}

// Unlock allows a lock to be broken, and requests a run that breaks it. It
// returns the value of the request, as Retry does.
func Unlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, lock *Lock) (string, error) {
	request := newRequest()
	return request, patch(ctx, c, apply, func() {
		apply.Annotations[infrav1.ForceUnlockAnnotation] = lock.ID
		delete(apply.Annotations, infrav1.ShellAnnotation)
		apply.Annotations[infrav1.RunRequestedAnnotation] = request
	})
}

// RevokeUnlock removes the permission to break a lock.
func RevokeUnlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	return patch(ctx, c, apply, func() { delete(apply.Annotations, infrav1.ForceUnlockAnnotation) })
}

// CheckDrift requests a drift check. It returns the value of the request, which
// status.drift.request has once the check is finished.
func CheckDrift(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	switch applied := meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.AppliedCondition); {
	case applied:
	case apply.Status.Run != nil:
		return "", fmt.Errorf("run %s of %s is in progress: check the drift when it has ended", apply.Status.Run.ID, apply.Name)
	case apply.Status.AppliedAt.IsZero():
		return "", fmt.Errorf("%s was never applied, so there is nothing to compare: see captctl history %s", apply.Name, apply.Name)
	default:
		return "", fmt.Errorf("the inputs of %s are not applied, so there is nothing to compare: see captctl history %s", apply.Name, apply.Name)
	}
	request := newRequest()
	return request, patch(ctx, c, apply, func() { apply.Annotations[infrav1.CheckDriftAnnotation] = request })
}
