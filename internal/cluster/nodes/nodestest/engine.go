// Package nodestest contains what the tests of machines and machine pools share: a
// fake Terraform engine, and a cluster that is its own workload cluster.
package nodestest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The annotations of a WorkspaceTemplateApply that control the engine.
const (
	// OutputsAnnotation is a JSON object of outputs. They take precedence over those
	// of Engine.Outputs.
	OutputsAnnotation = "test.capt.appthrust.io/outputs"
	// HoldAnnotation prevents the destruction of a workspace.
	HoldAnnotation = "test.capt.appthrust.io/hold"
	// WaitAnnotation prevents the application of a workspace.
	WaitAnnotation = "test.capt.appthrust.io/wait"
)

// Engine is a fake Terraform engine. It marks every workspace as applied, with the
// outputs that Outputs returns, and removes deleted workspaces that their owner no
// longer holds.
type Engine struct {
	Client  client.Client
	Outputs func(apply *infrav1.WorkspaceTemplateApply) map[string]any
}

// SetupWithManager adds the engine to the manager.
func (e *Engine) SetupWithManager(mgr ctrl.Manager) error {
	workspaceOf := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []ctrl.Request {
		operation, _ := obj.(*infrav1.WorkspaceOperation)
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: operation.Namespace, Name: operation.Spec.Workspace}}}
	})
	return ctrl.NewControllerManagedBy(mgr).For(&infrav1.WorkspaceTemplateApply{}).Watches(&infrav1.WorkspaceOperation{}, workspaceOf).Named("engine").Complete(e)
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
	var operations infrav1.WorkspaceOperationList
	if err := e.Client.List(ctx, &operations, client.InNamespace(apply.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	operations.Items = slices.DeleteFunc(operations.Items, func(o infrav1.WorkspaceOperation) bool { return o.Spec.Workspace != apply.Name || o.Ended() })
	if err := e.complete(apply, len(operations.Items) > 0); err != nil {
		return ctrl.Result{}, err
	}
	if err := e.Client.Status().Patch(ctx, apply, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, err
	}
	for i := range operations.Items {
		before := operations.Items[i].DeepCopy()
		operations.Items[i].Status.Phase = infrav1.OperationSucceeded
		// The manager may patch the status, and not update it.
		if err := e.Client.Status().Patch(ctx, &operations.Items[i], client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	return ctrl.Result{}, nil
}

func (e *Engine) complete(apply *infrav1.WorkspaceTemplateApply, requested bool) error {
	status := &apply.Status
	if status.ObservedGeneration != apply.Generation || requested {
		status.AppliedAt = metav1.Now()
		status.Runs++
	}
	status.ObservedGeneration = apply.Generation
	if apply.Spec.WriteConnectionSecretToRef != nil {
		status.ConnectionSecretName = apply.Spec.WriteConnectionSecretToRef.Name
	}
	outputs := e.Outputs(apply)
	if text := apply.Annotations[OutputsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &outputs); err != nil {
			return fmt.Errorf("parsing annotation %s: %w", OutputsAnnotation, err)
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

// destroy removes the finalizer once the owner no longer holds the workspace.
func (e *Engine) destroy(ctx context.Context, before, apply *infrav1.WorkspaceTemplateApply) error {
	_, hold := apply.Annotations[HoldAnnotation]
	if hold || controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer) {
		return nil
	}
	controllerutil.RemoveFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
	return client.IgnoreNotFound(e.Client.Patch(ctx, apply, client.MergeFrom(before)))
}
