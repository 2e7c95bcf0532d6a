// Package webhooks validates what the schemas and CEL rules of CAPT's kinds cannot
// express, and sets defaults. Each error states what to write instead.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	return SetupWith(mgr, Settings{
		Groups: []string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group, bootstrapv1.GroupVersion.Group, addonsv1.GroupVersion.Group},
	})
}

// Settings are those of the webhooks of a manager.
type Settings struct {
	// Groups are the API groups whose kinds have webhooks.
	Groups []string
	// NoClusterPolicies refuses ClusterWorkspacePolicies, because the manager does not read
	// them.
	NoClusterPolicies bool
}

// SetupWith registers the webhooks that the settings select.
func SetupWith(mgr ctrl.Manager, s Settings) error {
	r := registry{mgr: mgr, groups: s.Groups}
	clusterPolicies := clusterWorkspacePolicyRules
	if s.NoClusterPolicies {
		clusterPolicies = refusedClusterPolicyRules
	}
	return errors.Join(
		registerValidator(r, &infrav1.CAPTCluster{}, captClusterRules),
		registerValidator(r, &infrav1.CAPTClusterTemplate{}, captClusterTemplateRules),
		registerValidator(r, &infrav1.CAPTMachine{}, captMachineRules),
		registerValidator(r, &infrav1.CAPTMachineTemplate{}, captMachineTemplateRules),
		registerValidator(r, &infrav1.CAPTMachineSet{}, captMachineSetRules),
		registerValidator(r, &infrav1.CAPTMachineDeployment{}, captMachineDeploymentRules),
		registerValidator(r, &infrav1.CAPTMachinePool{}, captMachinePoolRules),
		registerValidator(r, &infrav1.CAPTMachinePoolTemplate{}, captMachinePoolTemplateRules),
		registerValidator(r, &infrav1.WorkspaceTemplate{}, workspaceTemplateRules),
		registerValidator(r, &infrav1.WorkspaceTemplateApply{}, workspaceTemplateApplyRules),
		registerValidator(r, &infrav1.WorkspaceProviderConfig{}, workspaceProviderConfigRules),
		registerValidator(r, &infrav1.WorkspacePolicy{}, workspacePolicyRules),
		registerValidator(r, &infrav1.ClusterWorkspacePolicy{}, clusterPolicies),
		registerValidator(r, &infrav1.WorkspaceNotification{}, workspaceNotificationRules),
		registerValidator(r, &controlplanev1.CAPTControlPlane{}, captControlPlaneRules),
		registerValidator(r, &controlplanev1.CAPTControlPlaneTemplate{}, captControlPlaneTemplateRules),
		registerValidator(r, &bootstrapv1.CAPTBootstrapConfigTemplate{}, captBootstrapConfigTemplateRules),
		registerValidator(r, &addonsv1.CAPTAddon{}, captAddonRules),

		registerDefaulter(r, &infrav1.WorkspaceTemplateApply{}, authors{}),
		registerDeletion(r),
		registerDefaulter(r, &infrav1.CAPTClusterTemplate{}, templateNamespaces[*infrav1.CAPTClusterTemplate](referencesOfCluster)),
		registerDefaulter(r, &infrav1.CAPTMachineTemplate{}, templateNamespaces[*infrav1.CAPTMachineTemplate](referencesOfMachine)),
		registerDefaulter(r, &infrav1.CAPTMachinePoolTemplate{}, templateNamespaces[*infrav1.CAPTMachinePoolTemplate](referencesOfMachinePool)),
		registerDefaulter(r, &controlplanev1.CAPTControlPlaneTemplate{}, templateNamespaces[*controlplanev1.CAPTControlPlaneTemplate](referencesOfControlPlane)),
		registerDefaulter(r, &infrav1.CAPTMachineSet{}, defaulter[*infrav1.CAPTMachineSet](defaultMachineSet)),
		registerDefaulter(r, &infrav1.CAPTMachineDeployment{}, defaulter[*infrav1.CAPTMachineDeployment](defaultMachineDeployment)),
		registerDefaulter(r, &controlplanev1.CAPTControlPlane{}, defaulter[*controlplanev1.CAPTControlPlane](defaultControlPlane)),
	)
}

// rules are the validation rules of a kind beyond schema and CEL.
type rules[T client.Object] struct {
	// object returns the errors of an object.
	object func(obj T) field.ErrorList
	// live returns the errors of an object that depend on another one. What cannot be read
	// is left to the controllers. Nil has none.
	live func(ctx context.Context, reader client.Reader, obj T) field.ErrorList
	// change returns the errors of an update. Nil allows all updates.
	change func(ctx context.Context, before, after T) field.ErrorList
	// warn returns a warning about an object, or an empty string. Nil never warns.
	warn func(obj T, now time.Time) string
}

// warnings returns the warnings about an object. An update that changes nothing
// about a warning does not repeat it.
func (r rules[T]) warnings(before *T, after T, now time.Time) admission.Warnings {
	if r.warn == nil {
		return nil
	}
	text := r.warn(after, now)
	if text == "" || before != nil && r.warn(*before, now) == text {
		return nil
	}
	return admission.Warnings{text}
}

// validator applies the rules of a kind to its objects.
type validator[T client.Object] struct {
	kind  schema.GroupKind
	rules rules[T]
	// reader reads other objects. Nil reads none.
	reader client.Reader
}

// checking limits how many objects are checked at a time. The API server sends any number of them
// at once, and one may need some ten MiB.
var checking = make(chan struct{}, 4)

// check returns the errors of an object.
func (v *validator[T]) check(ctx context.Context, obj T) field.ErrorList {
	errs := v.checkObject(ctx, obj)
	if v.rules.live != nil && v.reader != nil {
		errs = append(errs, v.rules.live(ctx, v.reader, obj)...)
	}
	return errs
}

// checkObject returns the errors of an object that do not depend on others. It ends with the
// request: objects that the API server no longer waits for do not delay others.
func (v *validator[T]) checkObject(ctx context.Context, obj T) field.ErrorList {
	select {
	case checking <- struct{}{}:
	case <-ctx.Done():
		return field.ErrorList{field.InternalError(nil, errors.New("too many objects are checked at the same time: try again"))}
	}
	defer func() { <-checking }()
	return v.rules.object(obj)
}

// registry registers the webhooks of some API groups.
type registry struct {
	mgr    ctrl.Manager
	groups []string
}

// kind returns the kind of an object, and whether its webhooks are registered.
func (r registry) kind(obj client.Object) (gvk schema.GroupVersionKind, registered bool, err error) {
	gvk, err = apiutil.GVKForObject(obj, r.mgr.GetScheme())
	if err != nil {
		return gvk, false, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	return gvk, slices.Contains(r.groups, gvk.Group), nil
}

func registerValidator[T client.Object](in registry, obj T, r rules[T]) error {
	gvk, registered, err := in.kind(obj)
	if err != nil || !registered {
		return err
	}
	v := &validator[T]{kind: gvk.GroupKind(), rules: r, reader: in.mgr.GetClient()}
	if err := ctrl.NewWebhookManagedBy(in.mgr, obj).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("registering the validating webhook of %s: %w", gvk.Kind, err)
	}
	return nil
}

// ValidateCreate rejects an object that violates a rule.
func (v *validator[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	return v.rules.warnings(nil, obj, time.Now()), v.reject(obj, v.check(ctx, obj))
}

// ValidateUpdate rejects an update that violates a rule. Violations that the
// object already had are allowed, so that the rules of a newer CAPT do not lock
// older objects. Objects that are being deleted can always be updated.
func (v *validator[T]) ValidateUpdate(ctx context.Context, before, after T) (admission.Warnings, error) {
	if !after.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	errs := subtract(v.check(ctx, after), v.check(ctx, before))
	if v.rules.change != nil {
		errs = append(errs, v.rules.change(ctx, before, after)...)
	}
	return v.rules.warnings(&before, after, time.Now()), v.reject(after, errs)
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
