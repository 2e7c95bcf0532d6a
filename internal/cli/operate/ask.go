package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// change writes what a person wants of a workspace.
func change(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, edit func()) error {
	before := apply.DeepCopy()
	if apply.Annotations == nil {
		apply.Annotations = map[string]string{}
	}
	edit()
	if err := c.Patch(ctx, apply, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing workspace %s: %w", apply.Name, err)
	}
	return nil
}

// WaitingPlan returns the plan that waits for a person. If one is named, it must
// be that one: what a person looked at is what they decide on.
func WaitingPlan(apply *infrav1.WorkspaceTemplateApply, id string) (*infrav1.PlanStatus, error) {
	plan := apply.Status.Plan
	switch {
	case plan == nil || plan.Waiting == nil || !*plan.Waiting:
		return nil, fmt.Errorf("no plan of %s waits: see captctl history %s", apply.Name, apply.Name)
	case id != "" && id != plan.ID:
		return nil, fmt.Errorf("plan %s is not the one that waits: look at %s with captctl plan %s", id, plan.ID, apply.Name)
	}
	return plan, nil
}

// Approve lets a waiting plan be applied, and releases protected resources.
func Approve(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, release []string) error {
	if err := Released(apply, plan, release); err != nil {
		return err
	}
	policy, err := Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	return change(ctx, c, apply, func() {
		if len(release) > 0 {
			apply.Annotations[infrav1.AllowDestroyAnnotation] = strings.Join(allowed(apply, release), ",")
		}
		if policy.Approval == infrav1.ApprovalManual {
			apply.Spec.ApprovedPlan = plan.ID
		}
		if apply.Annotations[infrav1.RejectPlanAnnotation] == plan.ID {
			delete(apply.Annotations, infrav1.RejectPlanAnnotation)
		}
	})
}

// Released returns an error if the plan would destroy a protected resource that
// neither the workspace's annotation nor release allows to be destroyed.
func Released(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus, release []string) error {
	released := allowed(apply, release)
	blocked := slices.DeleteFunc(slices.Clone(plan.Blocked), func(address string) bool {
		return slices.Contains(released, address)
	})
	if len(blocked) > 0 {
		return fmt.Errorf("the plan would destroy or replace protected resources: allow it with --allow-destroy '%s'", strings.Join(blocked, ","))
	}
	return nil
}

// allowed returns the protected addresses that may be destroyed: those of the
// workspace's annotation, then the new ones of release.
func allowed(apply *infrav1.WorkspaceTemplateApply, release []string) []string {
	addresses := terraform.ParseAddresses(apply.Annotations[infrav1.AllowDestroyAnnotation])
	for _, address := range release {
		if !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Reject turns a waiting plan down.
func Reject(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) error {
	policy, err := Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	if policy.Approval != infrav1.ApprovalManual {
		return fmt.Errorf("%s has approval: Auto, and its plan is held back by protection already: nothing to reject", apply.Name)
	}
	return change(ctx, c, apply, func() { apply.Annotations[infrav1.RejectPlanAnnotation] = plan.ID })
}

// CurrentRun returns the run that goes on. If one is named, it must be that one.
func CurrentRun(apply *infrav1.WorkspaceTemplateApply, id string) (*infrav1.RunStatus, error) {
	run := apply.Status.Run
	switch {
	case run == nil:
		return nil, fmt.Errorf("no run of %s goes on: see captctl history %s", apply.Name, apply.Name)
	case id != "" && id != run.ID:
		return nil, fmt.Errorf("run %s does not go on: the one that does is %s", id, run.ID)
	}
	return run, nil
}

// Cancel asks a run to stop gracefully.
func Cancel(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, run *infrav1.RunStatus) error {
	return change(ctx, c, apply, func() { apply.Annotations[infrav1.CancelRunAnnotation] = run.ID })
}

// request is a new value for an annotation by which a person asks for something.
func request() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// Retry asks for a run at once. It returns the request, which the status repeats
// when it has been handled.
func Retry(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	value := request()
	return value, change(ctx, c, apply, func() { apply.Annotations[infrav1.RunRequestedAnnotation] = value })
}

// Restore puts a snapshot of the state back. With hold the plan that follows
// waits for approval.
func Restore(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, snapshot Snapshot, hold bool) error {
	if apply.Status.HandledRestore == snapshot.Name && apply.Annotations[infrav1.RestoreSnapshotAnnotation] == snapshot.Name {
		return errors.New("it was the one restored last, and one snapshot is restored once: restore another in between")
	}
	return change(ctx, c, apply, func() {
		if hold {
			apply.Spec.Approval = infrav1.ApprovalManual
		}
		apply.Annotations[infrav1.RestoreSnapshotAnnotation] = snapshot.Name
	})
}

// Unlock breaks a lock, and asks for a run that takes it.
func Unlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, lock *Lock) (string, error) {
	value := request()
	return value, change(ctx, c, apply, func() {
		apply.Annotations[infrav1.ForceUnlockAnnotation] = lock.ID
		apply.Annotations[infrav1.RunRequestedAnnotation] = value
	})
}

// ForgetUnlock takes back the leave to break a lock.
func ForgetUnlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	return change(ctx, c, apply, func() { delete(apply.Annotations, infrav1.ForceUnlockAnnotation) })
}

// CheckDrift asks for a comparison of state and reality. It returns the request,
// which the status repeats when it has been answered.
func CheckDrift(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	if !meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.AppliedCondition) {
		return "", fmt.Errorf("%s is not applied, and only what is can be compared: see captctl history %s", apply.Name, apply.Name)
	}
	value := request()
	return value, change(ctx, c, apply, func() { apply.Annotations[infrav1.CheckDriftAnnotation] = value })
}
