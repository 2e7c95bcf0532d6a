// Package webhooks validates what the schemas and CEL rules of CAPT's kinds cannot
// express, and sets defaults. Each error states what to write instead.
package webhooks

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Setup registers the webhooks of all kinds with the webhook server of a manager.
func Setup(mgr ctrl.Manager) error {
	return errors.Join(
		registerValidator(mgr, &infrav1.CAPTCluster{}, captClusterRules),
		registerValidator(mgr, &infrav1.CAPTClusterTemplate{}, captClusterTemplateRules),
		registerValidator(mgr, &infrav1.CAPTMachine{}, captMachineRules),
		registerValidator(mgr, &infrav1.CAPTMachineTemplate{}, captMachineTemplateRules),
		registerValidator(mgr, &infrav1.CAPTMachineSet{}, captMachineSetRules),
		registerValidator(mgr, &infrav1.CAPTMachineDeployment{}, captMachineDeploymentRules),
		registerValidator(mgr, &infrav1.CAPTMachinePool{}, captMachinePoolRules),
		registerValidator(mgr, &infrav1.CAPTMachinePoolTemplate{}, captMachinePoolTemplateRules),
		registerValidator(mgr, &infrav1.WorkspaceTemplate{}, workspaceTemplateRules),
		registerValidator(mgr, &infrav1.WorkspaceTemplateApply{}, workspaceTemplateApplyRules),
		registerValidator(mgr, &infrav1.WorkspaceProviderConfig{}, workspaceProviderConfigRules),
		registerValidator(mgr, &controlplanev1.CAPTControlPlane{}, captControlPlaneRules),
		registerValidator(mgr, &controlplanev1.CAPTControlPlaneTemplate{}, captControlPlaneTemplateRules),
		registerValidator(mgr, &bootstrapv1.CAPTBootstrapConfigTemplate{}, captBootstrapConfigTemplateRules),
		registerValidator(mgr, &addonsv1.CAPTAddon{}, captAddonRules),

		registerDefaulter(mgr, &infrav1.CAPTMachineSet{}, defaultMachineSet),
		registerDefaulter(mgr, &infrav1.CAPTMachineDeployment{}, defaultMachineDeployment),
		registerDefaulter(mgr, &controlplanev1.CAPTControlPlane{}, defaultControlPlane),
	)
}

// rules are the validation rules of a kind beyond schema and CEL.
type rules[T client.Object] struct {
	// object returns the errors of an object.
	object func(obj T) field.ErrorList
	// change returns the errors of an update. Nil allows all updates.
	change func(ctx context.Context, before, after T) field.ErrorList
}

// validator applies the rules of a kind to its objects.
type validator[T client.Object] struct {
	kind  schema.GroupKind
	rules rules[T]
}

func registerValidator[T client.Object](mgr ctrl.Manager, obj T, r rules[T]) error {
	gvk, err := apiutil.GVKForObject(obj, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	v := &validator[T]{kind: gvk.GroupKind(), rules: r}
	if err := ctrl.NewWebhookManagedBy(mgr, obj).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("registering the validating webhook of %s: %w", gvk.Kind, err)
	}
	return nil
}

// ValidateCreate rejects an object that violates a rule.
func (v *validator[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	return nil, v.reject(obj, v.rules.object(obj))
}

// ValidateUpdate rejects an update that violates a rule. Violations that the
// object already had are allowed, so that the rules of a newer CAPT do not lock
// older objects. Objects that are being deleted can always be updated.
func (v *validator[T]) ValidateUpdate(ctx context.Context, before, after T) (admission.Warnings, error) {
	if !after.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	errs := subtract(v.rules.object(after), v.rules.object(before))
	if v.rules.change != nil {
		errs = append(errs, v.rules.change(ctx, before, after)...)
	}
	return nil, v.reject(after, errs)
}

// ValidateDelete allows every deletion.
func (v *validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (v *validator[T]) reject(obj T, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v.kind, obj.GetName(), errs)
}

// subtract returns the errors that are not among the known ones.
func subtract(errs, known field.ErrorList) field.ErrorList {
	seen := make(map[string]bool, len(known))
	for _, err := range known {
		seen[err.Error()] = true
	}
	var fresh field.ErrorList
	for _, err := range errs {
		if !seen[err.Error()] {
			fresh = append(fresh, err)
		}
	}
	return fresh
}
