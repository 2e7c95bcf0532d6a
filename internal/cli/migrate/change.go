package migrate

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// change is a change of the control plane whose plan is checked before it is
// applied.
type change struct {
	// template is the desired template of the control plane.
	template string
	// edit changes the rest of the control plane. It may be called repeatedly.
	edit func(*controlplanev1.CAPTControlPlane)
	// reached reports whether the change has reached the workspace.
	reached func(*infrav1.WorkspaceTemplateApply) bool
	// check returns an error for a plan that must not be applied.
	check func(*infrav1.PlanStatus) error
}

// maxFailedPlans is how often planning may fail before the change is undone.
const maxFailedPlans = 2

// errNotApplied means that a change was refused before anything was applied.
var errNotApplied = errors.New("nothing was applied")

// applyChange writes a change and waits until the workspace has applied it. Before
// the workspace can observe the change, its plans are made to wait for approval.
// A plan is approved only if it passes the check. The approval mode stays Manual
// until restoreApproval. The result is the approved plan, or nil if none was needed.
func (w *work) applyChange(ctx context.Context, c change) (*infrav1.PlanStatus, error) {
	if err := w.requireApproval(ctx); err != nil {
		return nil, err
	}
	if err := w.editControlPlane(ctx, c); err != nil {
		return nil, err
	}
	var approved *infrav1.PlanStatus
	err := poll(ctx, func() (string, error) {
		ws := &infrav1.WorkspaceTemplateApply{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.workspace), ws); err != nil {
			return "", fmt.Errorf("reading workspace %s: %w", w.workspace.Name, err)
		}
		plan, pending, err := c.progress(ws)
		if err != nil || plan == nil {
			return pending, err
		}
		approved = plan
		if ws.Spec.ApprovedPlan == plan.ID {
			return pending, nil
		}
		return pending, w.approve(ctx, ws, plan)
	})
	return approved, err
}

// progress decides what a workspace needs to apply the change: the plan to approve,
// if one waits and passes the check, and what is pending. The change is applied when
// nothing is pending.
func (c change) progress(ws *infrav1.WorkspaceTemplateApply) (plan *infrav1.PlanStatus, pending string, err error) {
	if !c.reached(ws) {
		return nil, "CAPT has not updated workspace " + ws.Name + " yet", nil
	}
	outcome := workspace.Outcome(ws)
	if outcome == nil {
		return nil, "", nil
	}
	if plan = waitingPlan(ws); plan != nil {
		if err := c.check(plan); err != nil {
			return nil, "", fmt.Errorf("%w: %w", errNotApplied, err)
		}
		return plan, "plan " + plan.ID + " is approved", nil
	}
	_, stalled := fault.AsStalled(outcome)
	switch approved := ws.Spec.ApprovedPlan != ""; {
	case !approved && (stalled || planningFails(ws)):
		return nil, "", fmt.Errorf("%w: %w", errNotApplied, outcome)
	case stalled:
		return nil, "", outcome
	}
	return nil, outcome.Error(), nil
}

// approve approves a plan of the workspace, unless the workspace has changed since
// it was read.
func (w *work) approve(ctx context.Context, ws *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) error {
	before := ws.DeepCopy()
	ws.Spec.ApprovedPlan = plan.ID
	err := w.Client.Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("approving plan %s: %w", plan.ID, err)
	}
	return nil
}

// planningFails reports whether planning the workspace's current generation has
// failed repeatedly.
func planningFails(ws *infrav1.WorkspaceTemplateApply) bool {
	applied := conditions.Get(ws, infrav1.AppliedCondition)
	return applied != nil && applied.Reason == infrav1.RetryingReason && applied.ObservedGeneration == ws.Generation &&
		ws.Status.Failure != nil && ws.Status.Failure.Attempts >= maxFailedPlans
}

// waitingPlan returns the plan that waits for approval, or nil.
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

// editControlPlane writes the change to the control plane or, if Cluster API
// manages the template, to the topology of the Cluster.
func (w *work) editControlPlane(ctx context.Context, c change) error {
	err := edit(ctx, w.Client, client.ObjectKeyFromObject(w.controlPlane), func(cp *controlplanev1.CAPTControlPlane) {
		c.edit(cp)
		if w.class == nil {
			cp.Spec.WorkspaceTemplateRef.Name = c.template
		}
	})
	if err != nil {
		return err
	}
	if w.class != nil && w.templateName() != c.template {
		return w.setVariable(ctx, w.key, w.class.variable, c.template)
	}
	return nil
}

// requireApproval makes the workspace's plans wait for approval, and records the
// previous approval mode.
func (w *work) requireApproval(ctx context.Context) error {
	return edit(ctx, w.Client, client.ObjectKeyFromObject(w.workspace), func(ws *infrav1.WorkspaceTemplateApply) {
		if _, recorded := ws.Annotations[approvalAnnotation]; recorded {
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

// restoreApproval restores the approval mode from before the migration.
func (w *work) restoreApproval(ctx context.Context) error {
	return edit(ctx, w.Client, client.ObjectKeyFromObject(w.workspace), func(ws *infrav1.WorkspaceTemplateApply) {
		before, recorded := ws.Annotations[approvalAnnotation]
		if !recorded {
			return
		}
		delete(ws.Annotations, approvalAnnotation)
		ws.Spec.Approval, ws.Spec.ApprovedPlan = infrav1.ApprovalMode(before), ""
		if before == unset {
			ws.Spec.Approval = ""
		}
	})
}

// edit reads an object, changes it and writes the difference, again if another client has changed
// it meanwhile.
func edit[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Client, key client.ObjectKey, change func(P)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj := P(new(T))
		if err := c.Get(ctx, key, obj); err != nil {
			return err
		}
		before, _ := obj.DeepCopyObject().(client.Object)
		change(obj)
		return c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("changing %s %s: %w", object.Kind(P(new(T))), key.Name, err)
	}
	return nil
}

// waitAndRestoreApproval waits until the workspace has applied a template, restores
// its approval mode, and waits until CAPT has observed that.
func (w *work) waitAndRestoreApproval(ctx context.Context, template string) error {
	if err := w.waitApplied(ctx, template); err != nil {
		return err
	}
	if err := w.restoreApproval(ctx); err != nil {
		return err
	}
	return w.waitApplied(ctx, template)
}

func (w *work) waitApplied(ctx context.Context, template string) error {
	return poll(ctx, func() (string, error) {
		ws := &infrav1.WorkspaceTemplateApply{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.workspace), ws); err != nil {
			return "", fmt.Errorf("reading workspace %s: %w", w.workspace.Name, err)
		}
		if ws.Spec.TemplateRef.Name != template {
			return "CAPT has not set template " + template + " on workspace " + ws.Name + " yet", nil
		}
		if outcome := workspace.Outcome(ws); outcome != nil {
			return outcome.Error(), nil
		}
		return "", nil
	})
}
