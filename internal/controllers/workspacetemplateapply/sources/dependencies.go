// Package sources reads what a workspace refers to: template, provider config, Flux source,
// policies and values. It resolves the inputs of the next run.
package sources

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Resolved is what a workspace refers to, and the inputs of its next run.
type Resolved struct {
	*runs.Workspace
	// Template is the template of the workspace. It is empty if it does not exist.
	Template *infrav1.WorkspaceTemplate
	// Sources and Inputs are set by the steps dependencies and inputs.
	Sources template.Sources
	Inputs  *template.Inputs
	// Artifact is the artifact of the Flux source, and sourceFault why there is none if the
	// workspace is being deleted. Both are nil for other modules.
	Artifact    *ModuleArtifact
	sourceFault error
	// DefaultAccount is the service account of pods whose provider config names none.
	DefaultAccount string
	// Revision is the revision of the template that the workspace uses, empty if the template
	// has no stages.
	Revision string
	// MoveFrom are the inputs with the backend that has the state, if it has to move.
	MoveFrom *template.Inputs
}

// Resolver reads what workspaces refer to.
type Resolver struct {
	Client client.Client
	// Reader reads the Secrets and ConfigMaps of users. The cache of Client does not contain
	// them, Metadata only their metadata.
	Reader   client.Reader
	Metadata cache.Cache
	Grants   *grant.Checker
	// Limits are what workspaces may use.
	Limits template.Limits
	// NoClusterPolicies leaves ClusterWorkspacePolicies alone: the manager may not read them.
	NoClusterPolicies bool
	Tracker           *Tracker
}

// Dependencies waits until all objects exist that the workspace needs. A watch
// ends each wait: the tracker gets the reference to an object before it is read.
func (r *Resolver) Dependencies(ctx context.Context, s *Resolved) error {
	refs := WithGrants(s.Apply.Namespace, References(s.Apply))
	if borrower, found := s.BorrowerKey(); found {
		refs = append(refs, Reference{grantKind, client.ObjectKey{Namespace: s.Apply.Namespace}}, Reference{"WorkspaceTemplateApply", borrower})
	}
	if s.Apply.Spec.TemplateRef.Key(s.Apply.Namespace).Namespace != s.Apply.Namespace {
		// A template of another namespace needs grants of this one.
		refs = append(refs, Reference{grantKind, client.ObjectKey{Namespace: s.Apply.Namespace}})
	}
	r.Tracker.Set(s.Name(), refs)
	if err := checkNames(s.Apply); err != nil {
		return InputsFault(err)
	}
	if err := r.ReadTemplate(ctx, s); err != nil {
		return err
	}
	if err := r.useRevision(ctx, s); err != nil {
		return err
	}
	if ref := s.sourceReference(); ref != nil {
		refs = append(refs, *ref)
		r.Tracker.Set(s.Name(), refs)
		if err := r.readSource(ctx, s, *ref); err != nil {
			return err
		}
	}
	if key := s.providerConfigKey(); key != nil {
		refs = append(refs, Reference{"WorkspaceProviderConfig", *key})
		if shared := SharedConfigKey(&s.Sources); shared != nil {
			refs = append(refs, Reference{"WorkspaceProviderConfig", *shared})
		}
		r.Tracker.Set(s.Name(), refs)
		if err := r.readProviderConfig(ctx, &s.Sources, *key); err != nil {
			return err
		}
	}
	if err := r.checkLending(ctx, s); err != nil {
		return err
	}
	values := template.ReferencesOf(s.Sources)
	r.Tracker.Set(s.Name(), append(refs, valueReferences(s.Apply.Namespace, values)...))
	if err := r.ReadValues(ctx, &s.Sources, values); err != nil {
		return err
	}
	if !WaitsForOthers(s.Apply) {
		return nil
	}
	if err := r.WaitForWorkspaces(ctx, s.Workspace); err != nil {
		return err
	}
	return r.WaitForSecrets(ctx, s.Workspace)
}

// WaitsForOthers reports whether a workspace waits for other workspaces and
// Secrets. Once it was applied it does not wait again: the objects it waited for
// may be deleted.
func WaitsForOthers(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.AppliedAt.IsZero() && apply.DeletionTimestamp.IsZero()
}

// checkNames returns a problem if the placeholders in the name of an object that a workspace
// waits for cannot be expanded: it would wait forever.
func checkNames(apply *infrav1.WorkspaceTemplateApply) error {
	if !WaitsForOthers(apply) {
		return nil
	}
	check := func(field string, refs []infrav1.ObjectReference) error {
		for i, ref := range refs {
			if err := template.CheckName(apply, fmt.Sprintf("spec.%s[%d].name", field, i), ref.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if err := check("waitForWorkspaces", apply.Spec.WaitForWorkspaces); err != nil {
		return err
	}
	return check("waitForSecrets", apply.Spec.WaitForSecrets)
}

// References returns the References in the spec of a workspace.
func References(apply *infrav1.WorkspaceTemplateApply) []Reference {
	refs := []Reference{{"WorkspaceTemplate", apply.Spec.TemplateRef.Key(apply.Namespace)}}
	for _, ref := range apply.Spec.WaitForWorkspaces {
		refs = append(refs, Reference{"WorkspaceTemplateApply", resolve(apply, ref)})
	}
	for _, ref := range apply.Spec.WaitForSecrets {
		refs = append(refs, Reference{"Secret", resolveSecret(apply, ref)})
	}
	return refs
}

// valueReferences returns the references to the Secrets and ConfigMaps that
// contain values.
func valueReferences(namespace string, values template.References) []Reference {
	var refs []Reference
	for _, name := range values.Secrets {
		refs = append(refs, Reference{"Secret", client.ObjectKey{Namespace: namespace, Name: name}})
	}
	for _, name := range values.ConfigMaps {
		refs = append(refs, Reference{"ConfigMap", client.ObjectKey{Namespace: namespace, Name: name}})
	}
	return refs
}

// resolve returns the key of an object that a workspace refers to, with the
// placeholders of its name replaced. A name that cannot be expanded stays, so that
// no object has it: see checkNames.
func resolve(apply *infrav1.WorkspaceTemplateApply, ref infrav1.ObjectReference) client.ObjectKey {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: template.ExpandName(apply, ref.Name)}
	if key.Namespace == "" {
		key.Namespace = apply.Namespace
	}
	return key
}

// resolveSecret returns the key of a Secret that a workspace refers to. It is always in
// the namespace of the workspace: otherwise the workspace would reveal which Secrets
// exist in other namespaces.
func resolveSecret(apply *infrav1.WorkspaceTemplateApply, ref infrav1.ObjectReference) client.ObjectKey {
	key := resolve(apply, ref)
	key.Namespace = apply.Namespace
	return key
}

// ReadTemplate reads the template of the workspace, if the workspace may use it.
func (r *Resolver) ReadTemplate(ctx context.Context, s *Resolved) error {
	key := s.Apply.Spec.TemplateRef.Key(s.Apply.Namespace)
	if err := r.Grants.Check(ctx, s.Apply.Namespace, infrav1.GrantedWorkspaceTemplate, key); err != nil {
		return err
	}
	s.Sources = template.Sources{Apply: s.Apply, Template: &infrav1.WorkspaceTemplate{}}
	err := r.Client.Get(ctx, key, s.Sources.Template)
	return reconcile.WaitIfNotFound(err, infrav1.WaitingForTemplateReason, "WorkspaceTemplate "+key.String(), "create it or change spec.templateRef")
}

// providerConfigKey returns the key of the provider config, which is in the
// namespace of the workspace, or nil.
func (s *Resolved) providerConfigKey() *client.ObjectKey {
	ref := s.Apply.ProviderConfig(s.Sources.Template)
	if ref == nil {
		return nil
	}
	return &client.ObjectKey{Namespace: s.Apply.Namespace, Name: ref.Name}
}

// SharedConfigKey returns the key of the provider config that a template of another
// namespace brings along, or nil. It counts if the workspace has none of this name: see
// isBorrower.
func SharedConfigKey(sources *template.Sources) *client.ObjectKey {
	ref := sources.Template.Spec.Template.Spec.ProviderConfigRef
	if ref == nil || sources.Apply.Spec.ProviderConfigRef != nil || sources.Template.Namespace == sources.Apply.Namespace {
		return nil
	}
	return &client.ObjectKey{Namespace: sources.Template.Namespace, Name: ref.Name}
}

func (r *Resolver) readProviderConfig(ctx context.Context, sources *template.Sources, key client.ObjectKey) error {
	config := &infrav1.WorkspaceProviderConfig{}
	err := r.Client.Get(ctx, key, config)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig "+key.String(), "create it in the namespace of the workspace"); err != nil {
		return err
	}
	if err := grant.CheckTemplate(config, client.ObjectKeyFromObject(sources.Template)); err != nil {
		return err
	}
	sources.ProviderConfig = config
	return nil
}

// checkValues returns a fault if the template names Secrets or ConfigMaps that it must not
// read. Those of the provider config are its own business.
func (r *Resolver) checkValues(ctx context.Context, sources *template.Sources) error {
	named := template.ReferencesOf(template.Sources{Apply: sources.Apply, Template: sources.Template})
	for _, name := range named.Secrets {
		if err := r.checkValue(ctx, sources, infrav1.GrantedSecret, name); err != nil {
			return err
		}
	}
	for _, name := range named.ConfigMaps {
		if err := r.checkValue(ctx, sources, infrav1.GrantedConfigMap, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *Resolver) checkValue(ctx context.Context, sources *template.Sources, kind infrav1.GrantedKind, name string) error {
	return r.Grants.CheckNamed(ctx, client.ObjectKeyFromObject(sources.Template), kind, client.ObjectKey{Namespace: sources.Apply.Namespace, Name: name})
}

// ReadValues reads the Secrets and ConfigMaps that contain values.
func (r *Resolver) ReadValues(ctx context.Context, sources *template.Sources, values template.References) error {
	if err := r.checkValues(ctx, sources); err != nil {
		return err
	}
	data := template.NewData(sources)
	namespace := sources.Apply.Namespace
	for _, name := range values.Secrets {
		var secret corev1.Secret
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
		if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForSecretReason, "Secret "+name, ""); err != nil {
			return err
		}
		if err := data.AddSecret(name, secret.Data); err != nil {
			return InputsFault(err)
		}
	}
	for _, name := range values.ConfigMaps {
		var configMap corev1.ConfigMap
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap)
		if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForConfigMapReason, "ConfigMap "+name, ""); err != nil {
			return err
		}
		if err := data.AddConfigMap(name, object.ConfigMapData(&configMap)); err != nil {
			return InputsFault(err)
		}
	}
	return nil
}

// WaitForSecrets returns an error while a Secret is missing that the workspace waits for.
func (r *Resolver) WaitForSecrets(ctx context.Context, s *runs.Workspace) error {
	for _, ref := range s.Apply.Spec.WaitForSecrets {
		key := resolveSecret(s.Apply, ref)
		err := r.Metadata.Get(ctx, key, object.Metadata(SecretKind))
		if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForSecretReason, "Secret "+key.String(), ""); err != nil {
			return err
		}
	}
	return nil
}

// WaitForWorkspaces returns an error while a workspace is not ready that this one waits for.
func (r *Resolver) WaitForWorkspaces(ctx context.Context, s *runs.Workspace) error {
	for _, ref := range s.Apply.Spec.WaitForWorkspaces {
		if err := r.Grants.Check(ctx, s.Apply.Namespace, infrav1.GrantedWorkspaceTemplateApply, resolve(s.Apply, ref)); err != nil {
			return err
		}
	}
	get := func(key client.ObjectKey) (*infrav1.WorkspaceTemplateApply, error) {
		apply := &infrav1.WorkspaceTemplateApply{}
		if err := r.Client.Get(ctx, key, apply); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading WorkspaceTemplateApply %s: %w", key, err)
		}
		return apply, nil
	}
	cycle, err := findCycle(s.Apply, get)
	if err != nil {
		return err
	}
	if len(cycle) > 0 {
		return fault.Stall(infrav1.DependencyCycleReason, "Workspaces wait for each other: %s. Remove one of the waitForWorkspaces entries", strings.Join(cycle, " → "))
	}
	for _, ref := range s.Apply.Spec.WaitForWorkspaces {
		key := resolve(s.Apply, ref)
		other, err := get(key)
		if err != nil {
			return err
		}
		if err := workspaceFault(key, other); err != nil {
			return err
		}
	}
	return nil
}

// workspaceFault waits until another workspace is applied and its outputs are
// written. The other workspace is nil if it does not exist.
func workspaceFault(key client.ObjectKey, other *infrav1.WorkspaceTemplateApply) error {
	switch {
	case other == nil:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s does not exist", key)
	case other.Status.AppliedAt.IsZero() || !meta.IsStatusConditionTrue(other.Status.Conditions, infrav1.OutputsWrittenCondition):
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is not applied yet", key)
	}
	return nil
}

// findCycle follows waitForWorkspaces from a workspace. It returns the names on
// the path back to the workspace, or nil if there is none. get returns nil for a
// workspace that does not exist.
func findCycle(start *infrav1.WorkspaceTemplateApply, get func(client.ObjectKey) (*infrav1.WorkspaceTemplateApply, error)) ([]string, error) {
	startKey := client.ObjectKeyFromObject(start)
	cycle, err := object.Cycle(startKey, func(key client.ObjectKey) ([]client.ObjectKey, error) {
		apply := start
		if key != startKey {
			var err error
			if apply, err = get(key); err != nil || apply == nil {
				return nil, err
			}
		}
		var others []client.ObjectKey
		for _, ref := range apply.Spec.WaitForWorkspaces {
			others = append(others, resolve(apply, ref))
		}
		return others, nil
	})
	var names []string
	for _, key := range cycle {
		names = append(names, key.Name)
	}
	return names, err
}

// OutputsSource returns what the next run uses, or nil if it is not known.
func (s *Resolved) OutputsSource() *infrav1.OutputsSource {
	if s.Sources.Template == nil {
		return nil
	}
	source := &infrav1.OutputsSource{TemplateRef: ReferenceTo(s.Sources.Template)}
	if config := s.Sources.ProviderConfig; config != nil {
		source.ProviderConfigRef = new(ReferenceTo(config))
	}
	return source
}

// ReferenceTo returns a reference to an object.
func ReferenceTo(obj client.Object) infrav1.ObjectReference {
	return infrav1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// RequirementsOf returns the requirements of the resources of a state.
func (s *Resolved) RequirementsOf(state *infrav1.StateStatus) *infrav1.StateRequirements {
	current, known := s.Apply.Spec.TemplateRef.Key(s.Apply.Namespace), state.Requirements
	switch {
	case !runs.InUse(state):
		return nil
	case known != nil && (known.TemplateRef == nil || runs.KeyOf(known.TemplateRef) != current):
		return known
	case s.Template.Name == "":
		// It does not exist any more.
		return known
	default:
		return template.RequirementsOf(s.Template)
	}
}

// Required returns what the template of a new run requires, or nil if the run creates nothing
// with it.
func (s *Resolved) Required(operation terraform.Operation) *infrav1.StateRequirements {
	if s.Sources.Template == nil || !runs.CreatesResources(operation) {
		return nil
	}
	return template.RequirementsOf(s.Sources.Template)
}
