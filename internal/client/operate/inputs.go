package operate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
	"github.com/appthrust/capt/internal/terraform/template"
)

// WithTemplate returns the workspaces of a namespace that use a template of it, except
// those that are being deleted.
func WithTemplate(ctx context.Context, c client.Reader, namespace, name string) ([]*infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var found []*infrav1.WorkspaceTemplateApply
	for i := range list.Items {
		apply := &list.Items[i]
		if apply.Spec.TemplateRef.Key(namespace) == (client.ObjectKey{Namespace: namespace, Name: name}) && apply.DeletionTimestamp.IsZero() {
			found = append(found, apply)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	if err := Get(ctx, c, "template", client.ObjectKey{Namespace: namespace, Name: name}, &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplateList{}); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("no workspace in namespace %s uses template %s", namespace, name)
}

// SpeculativeRequest returns the request of a run of a workspace with another module: that
// with a path below a directory. It reads everything with the rights of the user.
func SpeculativeRequest(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, dir, path string) (*terraform.Request, error) {
	request, tmpl, err := requestOf(ctx, c, apply, func(module *infrav1.ModuleParameters) {
		module.Source, module.Module, module.Entrypoint = infrav1.ModuleSourceRemote, dir, path
		// The user's own credentials fetch the modules that the module uses.
		module.InlineFormat, module.Files, module.Version, module.SourceRef, module.ModuleCredentials = "", nil, "", nil, nil
	})
	if err != nil {
		return nil, err
	}
	request.Policies, err = policiesOf(ctx, c, apply, tmpl)
	return request, err
}

// requestOf returns the request of a run of a workspace, whose module edit may change, and
// its template.
func requestOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, edit func(*infrav1.ModuleParameters)) (*terraform.Request, *infrav1.WorkspaceTemplate, error) {
	if err := checkHosted(apply); err != nil {
		return nil, nil, err
	}
	sources := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if err := c.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), sources.Template); err != nil {
		return nil, nil, fmt.Errorf("reading the template of %s: %w", apply.Name, err)
	}
	edit(&sources.Template.Spec.Template.Spec.ForProvider)
	if err := readSources(ctx, c, &sources); err != nil {
		return nil, nil, err
	}
	inputs, err := template.Resolve(sources)
	if err != nil {
		return nil, nil, err
	}
	request := &inputs.Request
	if state := apply.Status.State; state != nil && state.Resources > 0 && state.Backend != "" && state.Backend != request.Backend.Type {
		return nil, nil, fmt.Errorf("the state of %s is in backend %s, and not yet in %s: see kubectl describe wsta %s", apply.Name, state.Backend, request.Backend.Type, apply.Name)
	}
	// The providers have the versions that runs use.
	result, err := newestResult(ctx, c, apply, func(result *terraform.Result) bool { return len(result.LockFile) > 0 })
	if result != nil {
		request.LockFile = result.LockFile
	}
	return request, sources.Template, err
}

// readSources reads the provider config, and the Secrets and ConfigMaps with values.
func readSources(ctx context.Context, c client.Reader, s *template.Sources) error {
	namespace := s.Apply.Namespace
	if ref := s.Apply.ProviderConfig(s.Template); ref != nil {
		s.ProviderConfig = &infrav1.WorkspaceProviderConfig{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, s.ProviderConfig); err != nil {
			return fmt.Errorf("reading the provider config of %s: %w", s.Apply.Name, err)
		}
		if err := grant.CheckTemplate(s.ProviderConfig, client.ObjectKeyFromObject(s.Template)); err != nil {
			return err
		}
	}
	s.Secrets, s.ConfigMaps = map[string]map[string][]byte{}, map[string]map[string][]byte{}
	refs := template.ReferencesOf(*s)
	for _, name := range refs.Secrets {
		var secret corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
			return fmt.Errorf("reading a Secret with values or credentials of %s: %w", s.Apply.Name, err)
		}
		s.Secrets[name] = secret.Data
	}
	for _, name := range refs.ConfigMaps {
		var configMap corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap); err != nil {
			return fmt.Errorf("reading a ConfigMap with values of %s: %w", s.Apply.Name, err)
		}
		s.ConfigMaps[name] = object.ConfigMapData(&configMap)
	}
	return nil
}

// policiesOf returns the policies that decide about the plans of a workspace, or nil.
func policiesOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, tmpl *infrav1.WorkspaceTemplate) (*terraform.Policies, error) {
	sources := template.PolicySources{Apply: apply, Template: tmpl, NamespaceLabels: func(name string) (map[string]string, bool, error) {
		var namespace corev1.Namespace
		err := c.Get(ctx, client.ObjectKey{Name: name}, &namespace)
		return namespace.Labels, err == nil, client.IgnoreNotFound(err)
	}}
	if namespace, name := apply.HostedFor(); namespace != "" {
		sources.Guest = &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := c.Get(ctx, client.ObjectKeyFromObject(sources.Guest), sources.Guest); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading workspace %s/%s: %w", namespace, name, err)
		}
	}
	var cluster infrav1.ClusterWorkspacePolicyList
	if err := c.List(ctx, &cluster); err != nil {
		return nil, fmt.Errorf("listing the policies of the cluster: %w", err)
	}
	sources.Cluster = cluster.Items
	for _, namespace := range sources.Namespaces() {
		var list infrav1.WorkspacePolicyList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing the policies of namespace %s: %w", namespace, err)
		}
		sources.Namespaced = append(sources.Namespaced, list.Items...)
	}
	return template.PoliciesOf(sources)
}

// newestResult returns the result of the newest run that matches, or nil.
func newestResult(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, matches func(*terraform.Result) bool) (*terraform.Result, error) {
	ids, err := RunIDs(ctx, c, apply)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(id)}, &secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading run %s: %w", id, err)
		}
		if result, err := record.Result(&secret); err == nil && result != nil && matches(result) {
			return result, nil
		}
	}
	return nil, nil
}

// ToolOf returns the tool of the newest run of a workspace, or the one that wrote its state
// if no run recorded its tool. It is empty if neither is known.
func ToolOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, backend terraform.Backend) (terraform.Tool, error) {
	result, err := newestResult(ctx, c, apply, func(result *terraform.Result) bool { return result.Tool != terraform.Tool{} })
	if err != nil {
		return terraform.Tool{}, err
	}
	if result != nil {
		return result.Tool, nil
	}
	state, err := ReadState(ctx, c, apply, backend)
	if err != nil {
		return terraform.Tool{}, err
	}
	return statefile.WriterOf(state), nil
}

// ReadState returns the state of a workspace in Kubernetes, or nil if there is none yet. It
// does not lock it. A state in another backend is nil as well: only the tool can read it.
func ReadState(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, backend terraform.Backend) ([]byte, error) {
	if backend.Type != terraform.BackendKubernetes {
		return nil, nil
	}
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: backend.Namespace, Name: backend.StateSecretName()}, &secret)
	known := apply.Status.State
	if apierrors.IsNotFound(err) && (known == nil || known.Resources == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of %s: %w", apply.Name, err)
	}
	content, err := record.StateContent(&secret)
	if err != nil {
		return nil, fmt.Errorf("reading the state of %s: %w", apply.Name, err)
	}
	return content, nil
}
