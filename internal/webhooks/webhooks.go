// Package webhooks validates what the schemas and CEL rules of CAPT's kinds cannot
// express, and sets defaults. Each error states what to write instead.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	var errs []error
	for _, k := range kinds(s) {
		errs = append(errs, k.register(mgr, s.Groups))
	}
	if slices.Contains(s.Groups, infrav1.GroupVersion.Group) {
		mgr.GetWebhookServer().Register(deletionPath, &admission.Webhook{Handler: deleters{client: mgr.GetClient()}})
	}
	return errors.Join(errs...)
}

// kind has the webhooks of a kind.
type kind interface {
	// register registers them, if the kind is in one of the API groups.
	register(mgr ctrl.Manager, groups []string) error
	// checkNew returns the errors of a new object, and setDefaults sets its defaults, without a
	// cluster. Objects of other kinds are ignored.
	checkNew(obj client.Object) field.ErrorList
	setDefaults(obj client.Object)
}

// kinds returns the kinds that have webhooks.
func kinds(s Settings) []kind {
	clusterPolicies := clusterWorkspacePolicyRules
	if s.NoClusterPolicies {
		clusterPolicies = refusedClusterPolicyRules
	}
	return []kind{
		captClusterRules, captClusterTemplateRules, captControlPlaneRules, captControlPlaneTemplateRules, captBootstrapConfigTemplateRules,
		captMachineRules, captMachineTemplateRules, captMachineSetRules, captMachineDeploymentRules, captMachinePoolRules, captMachinePoolTemplateRules,
		workspaceTemplateRules, workspaceTemplateApplyRules, workspaceProviderConfigRules, workspacePolicyRules, clusterPolicies, workspaceNotificationRules,
		workspaceApprovalRules, workspaceOperationRules,
		captAddonRules,
	}
}

// Check returns the errors that the webhooks would return for a new object. It
// needs no cluster.
func Check(obj client.Object) field.ErrorList {
	var errs field.ErrorList
	for _, k := range kinds(Settings{}) {
		errs = append(errs, k.checkNew(obj)...)
	}
	return errs
}

// SetDefaults sets the defaults that the webhooks would set. It needs no cluster.
func SetDefaults(obj client.Object) {
	for _, k := range kinds(Settings{}) {
		k.setDefaults(obj)
	}
}

// rules are the validation rules of a kind beyond schema and CEL.
type rules[T client.Object] struct {
	// kind is an empty object.
	kind T
	// object returns the errors of an object.
	object func(obj T) field.ErrorList
	// live returns the errors of an object that depend on another one. What cannot be read
	// is left to the controllers. Nil has none.
	live func(ctx context.Context, reader client.Reader, obj T) field.ErrorList
	// change returns the errors of an update. Nil allows all updates.
	change func(ctx context.Context, before, after T) field.ErrorList
	// warn returns a warning about an object, or an empty string. Nil never warns.
	warn func(obj T, now time.Time) string
	// defaulter sets defaults before the validation. Nil sets none.
	defaulter admission.Defaulter[T]
	// record sets what is known about a new object only when a user creates it. reader reads what
	// is stored, and not a cache. Nil sets nothing.
	record func(ctx context.Context, reader client.Reader, obj T) error
}

func (r rules[T]) register(mgr ctrl.Manager, groups []string) error {
	gvk, err := apiutil.GVKForObject(r.kind, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", r.kind, err)
	}
	if !slices.Contains(groups, gvk.Group) {
		return nil
	}
	v := &validator[T]{kind: gvk.GroupKind(), rules: r, reader: mgr.GetClient()}
	if err := ctrl.NewWebhookManagedBy(mgr, r.kind).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("registering the validating webhook of %s: %w", gvk.Kind, err)
	}
	defaulter := r.defaulter
	if r.record != nil {
		defaulter = recorder[T]{reader: mgr.GetAPIReader(), record: r.record}
	}
	if defaulter != nil {
		hook := admission.WithDefaulter(mgr.GetScheme(), defaulter)
		hook.Handler = beforeSchema(hook.Handler)
		mgr.GetWebhookServer().Register("/mutate-"+strings.ReplaceAll(gvk.Group, ".", "-")+"-"+gvk.Version+"-"+strings.ToLower(gvk.Kind), hook)
	}
	return nil
}

// recorder is the defaulter of a kind whose objects are recorded.
type recorder[T client.Object] struct {
	reader client.Reader
	record func(ctx context.Context, reader client.Reader, obj T) error
}

// Default records what is known about a new object.
func (r recorder[T]) Default(ctx context.Context, obj T) error { return r.record(ctx, r.reader, obj) }

func (r rules[T]) checkNew(obj client.Object) field.ErrorList {
	if typed, ok := obj.(T); ok {
		return r.object(typed)
	}
	return nil
}

func (r rules[T]) setDefaults(obj client.Object) {
	typed, ok := obj.(T)
	if set, isPure := r.defaulter.(defaults[T]); ok && isPure {
		set(typed)
	}
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
