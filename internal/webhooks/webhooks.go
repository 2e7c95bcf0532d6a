// Package webhooks refuses what the schemas and CEL rules of CAPT's kinds cannot
// see, in sentences that say what to write instead, and fills in defaults.
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

// Setup serves the webhooks of every kind from the manager's webhook server.
func Setup(mgr ctrl.Manager) error {
	return errors.Join(
		validate(mgr, &infrav1.CAPTCluster{}, captClusterRules),
		validate(mgr, &infrav1.CAPTClusterTemplate{}, captClusterTemplateRules),
		validate(mgr, &infrav1.CAPTMachine{}, captMachineRules),
		validate(mgr, &infrav1.CAPTMachineTemplate{}, captMachineTemplateRules),
		validate(mgr, &infrav1.CAPTMachineSet{}, captMachineSetRules),
		validate(mgr, &infrav1.CAPTMachineDeployment{}, captMachineDeploymentRules),
		validate(mgr, &infrav1.CAPTMachinePool{}, captMachinePoolRules),
		validate(mgr, &infrav1.CAPTMachinePoolTemplate{}, captMachinePoolTemplateRules),
		validate(mgr, &infrav1.WorkspaceTemplate{}, workspaceTemplateRules),
		validate(mgr, &infrav1.WorkspaceTemplateApply{}, workspaceTemplateApplyRules),
		validate(mgr, &infrav1.WorkspaceProviderConfig{}, workspaceProviderConfigRules),
		validate(mgr, &controlplanev1.CAPTControlPlane{}, captControlPlaneRules),
		validate(mgr, &controlplanev1.CAPTControlPlaneTemplate{}, captControlPlaneTemplateRules),
		validate(mgr, &bootstrapv1.CAPTBootstrapConfigTemplate{}, captBootstrapConfigTemplateRules),
		validate(mgr, &addonsv1.CAPTAddon{}, captAddonRules),

		fillIn(mgr, &infrav1.CAPTMachineSet{}, defaultMachineSet),
		fillIn(mgr, &infrav1.CAPTMachineDeployment{}, defaultMachineDeployment),
		fillIn(mgr, &controlplanev1.CAPTControlPlane{}, defaultControlPlane),
	)
}

// rules are what the objects of a kind must fulfil beyond schema and CEL.
type rules[T client.Object] struct {
	// object returns what is wrong with an object, whatever it was before.
	object func(obj T) field.ErrorList
	// change returns what is wrong with a change; nil allows every change.
	change func(ctx context.Context, before, after T) field.ErrorList
}

// validator puts the rules of a kind before its objects.
type validator[T client.Object] struct {
	kind  schema.GroupKind
	rules rules[T]
}

func validate[T client.Object](mgr ctrl.Manager, obj T, r rules[T]) error {
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

// ValidateCreate refuses an object that breaks a rule.
func (v *validator[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	return nil, v.refuse(obj, v.rules.object(obj))
}

// ValidateUpdate refuses a change that breaks a rule. What was already wrong
// with the object before stays allowed, so that a newer CAPT's rules do not
// lock older objects; and nothing stands in the way of a deletion.
func (v *validator[T]) ValidateUpdate(ctx context.Context, before, after T) (admission.Warnings, error) {
	if !after.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	errs := without(v.rules.object(after), v.rules.object(before))
	if v.rules.change != nil {
		errs = append(errs, v.rules.change(ctx, before, after)...)
	}
	return nil, v.refuse(after, errs)
}

// ValidateDelete allows every deletion.
func (v *validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (v *validator[T]) refuse(obj T, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v.kind, obj.GetName(), errs)
}

// without returns the errors that are not among the known ones.
func without(errs, known field.ErrorList) field.ErrorList {
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
