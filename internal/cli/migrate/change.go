package migrate

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// change is a change of the control plane whose plan is seen before it is applied.
type change struct {
	// template is the one that the control plane is to have.
	template string
	// edit changes the rest of the control plane. It may be called again.
	edit func(*controlplanev1.CAPTControlPlane)
	// seen tells whether the change has reached the workspace.
	seen func(*infrav1.WorkspaceTemplateApply) bool
	// check refuses a plan.
	check func(*infrav1.PlanStatus) error
}

// mostPlans is how often a plan may fail before the change is taken back.
const mostPlans = 2

// errRefused is a plan that was not applied.
var errRefused = errors.New("nothing was applied")

// carryOut makes a change. From the first moment at which the workspace can see
// the change, its plans wait for approval, and one is approved only when the check
// has passed it. The approval stays so until releaseApproval.
func (m *Migration) carryOut(ctx context.Context, w *world, c change) (*infrav1.PlanStatus, error) {
	if err := m.holdApproval(ctx, w); err != nil {
		return nil, err
	}
	if err := m.edit(ctx, w, c); err != nil {
		return nil, err
	}
	var applied *infrav1.PlanStatus
	return applied, until(ctx, func() (string, error) {
		ws := &infrav1.WorkspaceTemplateApply{}
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(w.workspace), ws); err != nil {
			return "", fmt.Errorf("reading workspace %s: %w", w.workspace.Name, err)
		}
		if !c.seen(ws) {
			return "CAPT has not handed the change to workspace " + ws.Name + " yet", nil
		}
		outcome := workspace.Outcome(ws)
		if outcome == nil {
			return "", nil
		}
		plan := waitingPlan(ws)
		if plan == nil {
			_, stalled := fault.AsStalled(outcome)
			switch planned := ws.Spec.ApprovedPlan != ""; {
			case !planned && (stalled || failing(ws)):
				return "", fmt.Errorf("%w: %w", errRefused, outcome)
			case stalled:
				return "", outcome
			}
			return outcome.Error(), nil
		}
		if err := c.check(plan); err != nil {
			return "", fmt.Errorf("%w: %w", errRefused, err)
		}
		applied = plan
		if ws.Spec.ApprovedPlan == plan.ID {
			return "plan " + plan.ID + " is being applied", nil
		}
		before := ws.DeepCopy()
		ws.Spec.ApprovedPlan = plan.ID
		// The lock makes sure that it is the workspace that was looked at.
		err := m.Client.Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err := ignoreConflict(err); err != nil {
			return "", fmt.Errorf("approving plan %s: %w", plan.ID, err)
		}
		return "plan " + plan.ID + " was approved", nil
	})
}

// failing tells whether plans of what is asked for now fail again and again.
func failing(ws *infrav1.WorkspaceTemplateApply) bool {
	applied := conditions.Get(ws, infrav1.AppliedCondition)
	return applied != nil && applied.Reason == infrav1.RetryingReason && applied.ObservedGeneration == ws.Generation &&
		ws.Status.Failure != nil && ws.Status.Failure.Attempts >= mostPlans
}

// waitingPlan is the plan that waits for approval, or nil.
func waitingPlan(ws *infrav1.WorkspaceTemplateApply) *infrav1.PlanStatus {
	applied := conditions.Get(ws, infrav1.AppliedCondition)
	if applied == nil || applied.ObservedGeneration != ws.Generation || ws.Status.Plan == nil || ws.Status.Plan.Waiting == nil || !*ws.Status.Plan.Waiting {
		return nil
	}
	if applied.Reason != infrav1.WaitingForApprovalReason && applied.Reason != infrav1.ProtectedResourceReason {
		return nil
	}
	return ws.Status.Plan
}

// edit writes the change.
func (m *Migration) edit(ctx context.Context, w *world, c change) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cp := &controlplanev1.CAPTControlPlane{}
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(w.controlPlane), cp); err != nil {
			return err
		}
		before := cp.DeepCopy()
		c.edit(cp)
		if w.class == nil {
			cp.Spec.WorkspaceTemplateRef.Name = c.template
		}
		return m.Client.Patch(ctx, cp, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("changing CAPTControlPlane %s: %w", w.controlPlane.Name, err)
	}
	if w.class != nil && w.template() != c.template {
		return m.setVariable(ctx, w.key, w.class.variable, c.template)
	}
	return nil
}

// holdApproval has the workspace's plans wait for approval, and remembers how it
// was.
func (m *Migration) holdApproval(ctx context.Context, w *world) error {
	return m.editWorkspace(ctx, w, func(ws *infrav1.WorkspaceTemplateApply) {
		if _, held := ws.Annotations[approvalAnnotation]; held {
			return
		}
		if ws.Annotations == nil {
			ws.Annotations = map[string]string{}
		}
		ws.Annotations[approvalAnnotation] = unset
		if ws.Spec.Approval != "" {
			ws.Annotations[approvalAnnotation] = string(ws.Spec.Approval)
		}
		ws.Spec.Approval, ws.Spec.ApprovedPlan = infrav1.ApprovalManual, ""
	})
}

// releaseApproval puts the approval back.
func (m *Migration) releaseApproval(ctx context.Context, w *world) error {
	return m.editWorkspace(ctx, w, func(ws *infrav1.WorkspaceTemplateApply) {
		before, held := ws.Annotations[approvalAnnotation]
		if !held {
			return
		}
		delete(ws.Annotations, approvalAnnotation)
		ws.Spec.Approval, ws.Spec.ApprovedPlan = infrav1.ApprovalMode(before), ""
		if before == unset {
			ws.Spec.Approval = ""
		}
	})
}

func (m *Migration) editWorkspace(ctx context.Context, w *world, edit func(*infrav1.WorkspaceTemplateApply)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ws := &infrav1.WorkspaceTemplateApply{}
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(w.workspace), ws); err != nil {
			return err
		}
		before := ws.DeepCopy()
		edit(ws)
		return m.Client.Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("changing the approval of workspace %s: %w", w.workspace.Name, err)
	}
	return nil
}

// settled waits until the workspace is applied with a template, lets go of its
// approval, and waits until CAPT has seen that.
func (m *Migration) settled(ctx context.Context, w *world, template string) error {
	if err := m.waitApplied(ctx, w, template); err != nil {
		return err
	}
	if err := m.releaseApproval(ctx, w); err != nil {
		return err
	}
	return m.waitApplied(ctx, w, template)
}

func (m *Migration) waitApplied(ctx context.Context, w *world, template string) error {
	return until(ctx, func() (string, error) {
		ws := &infrav1.WorkspaceTemplateApply{}
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(w.workspace), ws); err != nil {
			return "", fmt.Errorf("reading workspace %s: %w", w.workspace.Name, err)
		}
		if ws.Spec.TemplateRef.Name != template {
			return "CAPT has not handed the template " + template + " to workspace " + ws.Name + " yet", nil
		}
		if outcome := workspace.Outcome(ws); outcome != nil {
			return outcome.Error(), nil
		}
		return "", nil
	})
}
