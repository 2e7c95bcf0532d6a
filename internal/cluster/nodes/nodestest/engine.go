// Package nodestest has what the tests of machines and machine pools share: a
// stand-in for the Terraform engine, and a cluster that is its own workload
// cluster.
package nodestest

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The annotations by which a test tells the engine what to do.
const (
	// OutputsAnnotation is a JSON object of outputs that the next look tells. They
	// win over those that the engine makes.
	OutputsAnnotation = "test.capt.appthrust.io/outputs"
	// HoldAnnotation keeps a workspace from being destroyed.
	HoldAnnotation = "test.capt.appthrust.io/hold"
	// WaitAnnotation keeps a workspace from being applied.
	WaitAnnotation = "test.capt.appthrust.io/wait"
)

// Engine stands in for the engine: it says of every workspace that it is
// applied, with the outputs that Outputs makes, and destroys what is deleted and
// no longer held. It runs nothing.
type Engine struct {
	Client  client.Client
	Outputs func(apply *infrav1.WorkspaceTemplateApply) map[string]any
}

// SetupWithManager adds the engine.
func (e *Engine) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&infrav1.WorkspaceTemplateApply{}).Named("engine").Complete(e)
}

// Reconcile completes or destroys a workspace.
func (e *Engine) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := e.Client.Get(ctx, req.NamespacedName, apply); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := apply.DeepCopy()
	if !apply.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, e.destroy(ctx, before, apply)
	}
	if controllerutil.AddFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer) {
		return ctrl.Result{}, e.Client.Patch(ctx, apply, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if _, wait := apply.Annotations[WaitAnnotation]; wait {
		return ctrl.Result{}, nil
	}
	if err := e.complete(apply); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, e.Client.Status().Patch(ctx, apply, client.MergeFrom(before))
}

func (e *Engine) complete(apply *infrav1.WorkspaceTemplateApply) error {
	status := &apply.Status
	request := apply.Annotations[infrav1.RunRequestedAnnotation]
	if status.ObservedGeneration != apply.Generation || status.HandledRequest != request {
		status.AppliedAt = metav1.Now()
		status.Runs++
	}
	status.ObservedGeneration, status.HandledRequest = apply.Generation, request
	if apply.Spec.WriteConnectionSecretToRef != nil {
		status.ConnectionSecretName = apply.Spec.WriteConnectionSecretToRef.Name
	}
	outputs := e.Outputs(apply)
	if text := apply.Annotations[OutputsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &outputs); err != nil {
			return fmt.Errorf("reading the outputs: %w", err)
		}
	}
	status.Outputs = map[string]infrav1.Value{}
	for name, output := range outputs {
		value, err := infrav1.NewValue(output)
		if err != nil {
			return err
		}
		status.Outputs[name] = value
	}
	conditions.Set(apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: apply.Generation})
	return nil
}

// destroy waits for the owner to let go, as the engine does.
func (e *Engine) destroy(ctx context.Context, before, apply *infrav1.WorkspaceTemplateApply) error {
	_, hold := apply.Annotations[HoldAnnotation]
	if hold || controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer) {
		return nil
	}
	controllerutil.RemoveFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
	return client.IgnoreNotFound(e.Client.Patch(ctx, apply, client.MergeFrom(before)))
}
