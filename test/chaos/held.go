package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// approveHeld approves the plan of an automatic workspace that waits because an earlier run was
// interrupted, or has left no report, and that destroys what is tainted.
func (a *actor) approveHeld(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	status := &observed.Status
	if a.scenario.Manual || status.InterruptedBy == "" || status.HeldBy != status.InterruptedBy || !isWaiting(observed) {
		return nil
	}
	a.excuse(excuseHeld)
	return a.patch(ctx, fmt.Sprintf(`{"spec":{"approvedPlan":%q}}`, status.Plan.ID))
}

// holdPlans requires approval for all plans of the namespace for a while.
func (t *trial) holdPlans(ctx context.Context, m injection) error {
	policy := &infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: fmt.Sprintf("hold-%d", m.At.Milliseconds())}}
	policy.Spec.Rules = []infrav1.PolicyRule{{Name: "every-plan", Match: infrav1.PolicyMatchPlan, Action: infrav1.PolicyRequireApproval, Expression: "true"}}
	if err := t.client.Create(ctx, policy); err != nil {
		// Whether it exists cannot be told from the error.
		return errors.Join(errNoTarget, t.releasePlans(ctx, policy))
	}
	sleep(ctx, 2*m.For)
	return t.releasePlans(ctx, policy)
}

func (t *trial) releasePlans(ctx context.Context, policy *infrav1.WorkspacePolicy) error {
	return await(ctx, func(ctx context.Context) error { return client.IgnoreNotFound(t.client.Delete(ctx, policy.DeepCopy())) })
}
