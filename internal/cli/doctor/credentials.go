package doctor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
)

// credentials checks the provider configs and templates that workspaces use, and
// the Secrets of the provider configs.
func (d *Doctor) credentials(ctx context.Context) ([]Result, error) {
	var configs infrav1.WorkspaceProviderConfigList
	if err := d.list(ctx, &configs); err != nil {
		return nil, err
	}
	var problems []Result
	for i := range configs.Items {
		config := &configs.Items[i]
		missing, err := d.missingKeys(ctx, config)
		if err != nil {
			return nil, err
		}
		problems = append(problems, missing...)
		ready := conditions.Get(config, infrav1.ReadyCondition)
		if len(missing) == 0 && ready != nil && ready.Status == metav1.ConditionFalse {
			problems = append(problems, Result{
				Status: Fail, Object: objectName("WorkspaceProviderConfig", config), Message: ready.Reason + ": " + ready.Message,
				Fix: fmt.Sprintf("kubectl edit -n %s workspaceproviderconfig/%s", config.Namespace, config.Name),
			})
		}
	}
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	templates, lent, applies, err := d.referenced(ctx, applies)
	if err != nil {
		return nil, err
	}
	problems = append(problems, missingReferences(applies, templates, append(lent, configs.Items...))...)
	return orOK(problems, "%s, all references exist", text.Count(len(configs.Items), "provider config")), nil
}

// referenced returns the templates that workspaces use, and the provider configs beside those
// of other namespaces. It also returns the workspaces without those whose template or
// provider config the user must not read.
func (d *Doctor) referenced(ctx context.Context, applies []infrav1.WorkspaceTemplateApply) (templates []infrav1.WorkspaceTemplate, lent []infrav1.WorkspaceProviderConfig, known []infrav1.WorkspaceTemplateApply, err error) {
	read := map[string]error{}
	get := func(key client.ObjectKey, obj client.Object, found func()) error {
		id := fmt.Sprintf("%T %s", obj, key)
		if err, done := read[id]; done {
			return err
		}
		err := d.Client.Get(ctx, key, obj)
		if err == nil {
			found()
		}
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			err = nil
		}
		read[id] = err
		return err
	}
	byKey := map[client.ObjectKey]infrav1.WorkspaceTemplate{}
	for i := range applies {
		apply := &applies[i]
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		var template infrav1.WorkspaceTemplate
		err := get(key, &template, func() { byKey[key], templates = template, append(templates, template) })
		if ref := byKey[key].Spec.Template.Spec.ProviderConfigRef; err == nil && ref != nil && key.Namespace != apply.Namespace && apply.Spec.ProviderConfigRef == nil {
			var config infrav1.WorkspaceProviderConfig
			err = get(client.ObjectKey{Namespace: key.Namespace, Name: ref.Name}, &config, func() { lent = append(lent, config) })
		}
		switch {
		case apierrors.IsForbidden(err):
		case err != nil:
			return nil, nil, nil, fmt.Errorf("reading what workspace %s uses: %w", client.ObjectKeyFromObject(apply), err)
		default:
			known = append(known, *apply)
		}
	}
	return templates, lent, known, nil
}

// missingKeys returns the Secrets and keys that a provider config references and
// that do not exist.
func (d *Doctor) missingKeys(ctx context.Context, config *infrav1.WorkspaceProviderConfig) ([]Result, error) {
	var problems []Result
	for _, ref := range secretReferences(config) {
		var secret corev1.Secret
		err := d.Client.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: ref.Name}, &secret)
		result := Result{
			Status: Fail, Object: objectName("WorkspaceProviderConfig", config),
			Fix: fmt.Sprintf("kubectl create secret generic -n %s %s --from-file=%s=FILE", config.Namespace, ref.Name, ref.Key),
		}
		switch _, has := secret.Data[ref.Key]; {
		case apierrors.IsNotFound(err):
			result.Message = fmt.Sprintf("Secret %s does not exist", ref.Name)
		case err != nil:
			return nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
		case !has:
			result.Message = fmt.Sprintf("Secret %s has no key %s", ref.Name, ref.Key)
			result.Fix = fmt.Sprintf("kubectl edit secret -n %s %s", config.Namespace, ref.Name)
		default:
			continue
		}
		problems = append(problems, result)
	}
	return problems, nil
}

// secretReferences returns the keys of Secrets that a provider config references.
func secretReferences(config *infrav1.WorkspaceProviderConfig) []infrav1.KeyReference {
	var refs []infrav1.KeyReference
	for _, c := range config.Spec.Credentials {
		refs = append(refs, c.SecretRef)
	}
	if e := config.Spec.StateEncryption; e != nil {
		for _, ref := range []*infrav1.KeyReference{e.PassphraseSecretRef, e.ConfigurationSecretRef} {
			if ref != nil {
				refs = append(refs, *ref)
			}
		}
	}
	return refs
}

// missingReferences returns the templates that workspaces reference and the
// provider configs that their templates reference, if they do not exist. A
// provider config must be in the namespace of the workspace, or beside its template.
func missingReferences(applies []infrav1.WorkspaceTemplateApply, templates []infrav1.WorkspaceTemplate, configs []infrav1.WorkspaceProviderConfig) []Result {
	configExists := map[client.ObjectKey]bool{}
	for i := range configs {
		configExists[client.ObjectKeyFromObject(&configs[i])] = true
	}
	byKey := map[client.ObjectKey]*infrav1.WorkspaceTemplate{}
	for i := range templates {
		byKey[client.ObjectKeyFromObject(&templates[i])] = &templates[i]
	}
	var problems []Result
	for i := range applies {
		apply := &applies[i]
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		template := byKey[key]
		if template == nil {
			problems = append(problems, Result{
				Status: Fail, Object: objectName("WorkspaceTemplateApply", apply), Message: fmt.Sprintf("WorkspaceTemplate %s does not exist", key),
				Fix: "create the template with kubectl apply, or change spec.templateRef",
			})
			continue
		}
		ref := apply.ProviderConfig(template)
		// A template of another namespace may bring its provider config along.
		lent := apply.Spec.ProviderConfigRef == nil && ref != nil && configExists[client.ObjectKey{Namespace: template.Namespace, Name: ref.Name}]
		if ref != nil && !lent && !configExists[client.ObjectKey{Namespace: apply.Namespace, Name: ref.Name}] {
			problems = append(problems, Result{
				Status: Fail, Object: objectName("WorkspaceTemplateApply", apply),
				Message: fmt.Sprintf("template %s needs WorkspaceProviderConfig %s, which does not exist in namespace %s", template.Name, ref.Name, apply.Namespace),
				Fix:     "create the WorkspaceProviderConfig with kubectl apply; see examples/provider-config-aws.yaml",
			})
		}
	}
	return problems
}
