package workspacetemplateapply

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// dependencies waits until everything the workspace needs exists. Each wait is
// ended by a watch: the tracker is told of an object before it is looked for.
func (r *Reconciler) dependencies(ctx context.Context, s *scope) error {
	refs := s.references()
	r.tracker.set(s.key(), refs)
	if err := r.readTemplate(ctx, s); err != nil {
		return err
	}
	if config := s.sources.ProviderConfig; config != nil || s.providerConfigKey() != nil {
		refs = append(refs, reference{"WorkspaceProviderConfig", *s.providerConfigKey()})
		r.tracker.set(s.key(), refs)
	}
	if err := r.readProviderConfig(ctx, s); err != nil {
		return err
	}
	named := template.ReferencesOf(s.sources)
	for _, name := range named.Secrets {
		refs = append(refs, reference{"Secret", client.ObjectKey{Namespace: s.apply.Namespace, Name: name}})
	}
	for _, name := range named.ConfigMaps {
		refs = append(refs, reference{"ConfigMap", client.ObjectKey{Namespace: s.apply.Namespace, Name: name}})
	}
	r.tracker.set(s.key(), refs)
	if err := r.readNamed(ctx, s, named); err != nil {
		return err
	}
	// A workspace that has been applied does not wait again: what it waited for
	// may be gone without harm.
	if !s.apply.Status.AppliedAt.IsZero() || !s.apply.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.waitForWorkspaces(ctx, s); err != nil {
		return err
	}
	return r.waitForSecrets(ctx, s)
}

// references lists what the workspace names itself.
func (s *scope) references() []reference {
	refs := []reference{{"WorkspaceTemplate", s.apply.Spec.TemplateRef.Key(s.apply.Namespace)}}
	for _, w := range s.apply.Spec.WaitForWorkspaces {
		refs = append(refs, reference{"WorkspaceTemplateApply", s.resolve(w.Namespace, s.expand(w.Name))})
	}
	for _, w := range s.apply.Spec.WaitForSecrets {
		refs = append(refs, reference{"Secret", s.resolve(w.Namespace, s.expand(w.Name))})
	}
	return refs
}

// expand fills the placeholders of a name. One that has no value stays, and
// names nothing that could exist.
func (s *scope) expand(name string) string { return template.ExpandName(s.apply, name) }

func (s *scope) resolve(namespace, name string) client.ObjectKey {
	if namespace == "" {
		namespace = s.apply.Namespace
	}
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func (r *Reconciler) readTemplate(ctx context.Context, s *scope) error {
	key := s.apply.Spec.TemplateRef.Key(s.apply.Namespace)
	s.sources = template.Sources{Apply: s.apply, Template: &infrav1.WorkspaceTemplate{}}
	err := r.Client.Get(ctx, key, s.sources.Template)
	if apierrors.IsNotFound(err) {
		return fault.Wait(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s does not exist: create it, or change spec.templateRef", key)
	}
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	return nil
}

// providerConfigKey names the provider config, which is beside the workspace.
func (s *scope) providerConfigKey() *client.ObjectKey {
	ref := s.sources.Template.Spec.Template.Spec.ProviderConfigRef
	if ref == nil {
		return nil
	}
	return &client.ObjectKey{Namespace: s.apply.Namespace, Name: ref.Name}
}

func (r *Reconciler) readProviderConfig(ctx context.Context, s *scope) error {
	key := s.providerConfigKey()
	if key == nil {
		return nil
	}
	config := &infrav1.WorkspaceProviderConfig{}
	err := r.Client.Get(ctx, *key, config)
	if apierrors.IsNotFound(err) {
		return fault.Wait(infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig %s does not exist: create it in the namespace of the workspace", key)
	}
	if err != nil {
		return fmt.Errorf("reading the provider config: %w", err)
	}
	s.sources.ProviderConfig = config
	return nil
}

// readNamed reads the Secrets and ConfigMaps that values come from.
func (r *Reconciler) readNamed(ctx context.Context, s *scope, named template.References) error {
	s.sources.Secrets, s.sources.ConfigMaps = map[string]map[string][]byte{}, map[string]map[string][]byte{}
	for _, name := range named.Secrets {
		var secret corev1.Secret
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			return fault.Wait(infrav1.WaitingForSecretReason, "Secret %s does not exist", name)
		}
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", name, err)
		}
		s.sources.Secrets[name] = secret.Data
	}
	for _, name := range named.ConfigMaps {
		var configMap corev1.ConfigMap
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: name}, &configMap)
		if apierrors.IsNotFound(err) {
			return fault.Wait(infrav1.WaitingForConfigMapReason, "ConfigMap %s does not exist", name)
		}
		if err != nil {
			return fmt.Errorf("reading ConfigMap %s: %w", name, err)
		}
		data := map[string][]byte{}
		maps.Copy(data, configMap.BinaryData)
		for key, value := range configMap.Data {
			data[key] = []byte(value)
		}
		s.sources.ConfigMaps[name] = data
	}
	return nil
}

func (r *Reconciler) waitForSecrets(ctx context.Context, s *scope) error {
	for _, w := range s.apply.Spec.WaitForSecrets {
		key := s.resolve(w.Namespace, s.expand(w.Name))
		err := r.Metadata.Get(ctx, key, metadata("Secret"))
		if apierrors.IsNotFound(err) {
			return fault.Wait(infrav1.WaitingForSecretReason, "Secret %s does not exist yet", key)
		}
		if err != nil {
			return fmt.Errorf("looking for Secret %s: %w", key, err)
		}
	}
	return nil
}

func (r *Reconciler) waitForWorkspaces(ctx context.Context, s *scope) error {
	if cycle, err := r.findCycle(ctx, s); err != nil || cycle != "" {
		if err != nil {
			return err
		}
		return fault.Stall(infrav1.DependencyCycleReason, "Workspaces wait for each other: %s; remove one of the waitForWorkspaces", cycle)
	}
	for _, w := range s.apply.Spec.WaitForWorkspaces {
		key := s.resolve(w.Namespace, s.expand(w.Name))
		var other infrav1.WorkspaceTemplateApply
		err := r.Client.Get(ctx, key, &other)
		if apierrors.IsNotFound(err) {
			return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s does not exist yet", key)
		}
		if err != nil {
			return fmt.Errorf("reading workspace %s: %w", key, err)
		}
		if ready := meta.FindStatusCondition(other.Status.Conditions, infrav1.OutputsWrittenCondition); other.Status.AppliedAt.IsZero() || ready == nil || ready.Status != "True" {
			return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is not applied yet", key)
		}
	}
	return nil
}

// findCycle follows the waits from the workspace and tells the way back to it.
func (r *Reconciler) findCycle(ctx context.Context, s *scope) (string, error) {
	seen := map[client.ObjectKey]bool{}
	var follow func(from *infrav1.WorkspaceTemplateApply, path []string) (string, error)
	follow = func(from *infrav1.WorkspaceTemplateApply, path []string) (string, error) {
		for _, w := range from.Spec.WaitForWorkspaces {
			waiter := &scope{apply: from}
			key := waiter.resolve(w.Namespace, waiter.expand(w.Name))
			if key == s.key() {
				return strings.Join(append(path, key.Name), " → "), nil
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			var next infrav1.WorkspaceTemplateApply
			if err := r.Client.Get(ctx, key, &next); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return "", fmt.Errorf("reading workspace %s: %w", key, err)
			}
			if found, err := follow(&next, append(path, key.Name)); err != nil || found != "" {
				return found, err
			}
		}
		return "", nil
	}
	return follow(s.apply, []string{s.apply.Name})
}
