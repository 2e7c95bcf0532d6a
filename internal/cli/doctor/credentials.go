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
)

// credentials looks at what runs are given: provider configs and their Secrets.
func (d *Doctor) credentials(ctx context.Context) ([]Result, error) {
	var configs infrav1.WorkspaceProviderConfigList
	if err := d.list(ctx, &configs); err != nil {
		return nil, err
	}
	var found []Result
	for i := range configs.Items {
		config := &configs.Items[i]
		missing, err := d.missingKeys(ctx, config)
		if err != nil {
			return nil, err
		}
		found = append(found, missing...)
		ready := conditions.Get(config, infrav1.ReadyCondition)
		if len(missing) == 0 && ready != nil && ready.Status == metav1.ConditionFalse {
			found = append(found, Result{
				Status: Fail, Object: nameOf("WorkspaceProviderConfig", config), Message: ready.Reason + ": " + ready.Message,
				Mend: fmt.Sprintf("kubectl edit -n %s workspaceproviderconfig/%s", config.Namespace, config.Name),
			})
		}
	}
	missing, err := d.missingConfigs(ctx, configs.Items)
	if err != nil {
		return nil, err
	}
	return orFine(append(found, missing...), "%d provider configs have what they refer to", len(configs.Items)), nil
}

// missingKeys are the keys of Secrets that a provider config refers to in vain.
func (d *Doctor) missingKeys(ctx context.Context, config *infrav1.WorkspaceProviderConfig) ([]Result, error) {
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
	var found []Result
	for _, ref := range refs {
		var secret corev1.Secret
		err := d.Client.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: ref.Name}, &secret)
		result := Result{
			Status: Fail, Object: nameOf("WorkspaceProviderConfig", config),
			Mend: fmt.Sprintf("kubectl create secret generic -n %s %s --from-file=%s=FILE", config.Namespace, ref.Name, ref.Key),
		}
		switch _, has := secret.Data[ref.Key]; {
		case apierrors.IsNotFound(err):
			result.Message = fmt.Sprintf("Secret %s does not exist", ref.Name)
		case err != nil:
			return nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
		case !has:
			result.Message = fmt.Sprintf("Secret %s has no key %s", ref.Name, ref.Key)
			result.Mend = fmt.Sprintf("kubectl edit secret -n %s %s", config.Namespace, ref.Name)
		default:
			continue
		}
		found = append(found, result)
	}
	return found, nil
}

// missingConfigs are provider configs that templates name and nobody made where
// their workspaces are.
func (d *Doctor) missingConfigs(ctx context.Context, configs []infrav1.WorkspaceProviderConfig) ([]Result, error) {
	known := map[client.ObjectKey]bool{}
	for i := range configs {
		known[client.ObjectKeyFromObject(&configs[i])] = true
	}
	var templates infrav1.WorkspaceTemplateList
	if err := d.Client.List(ctx, &templates); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	byKey := map[client.ObjectKey]*infrav1.WorkspaceTemplate{}
	for i := range templates.Items {
		byKey[client.ObjectKeyFromObject(&templates.Items[i])] = &templates.Items[i]
	}
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	var found []Result
	for i := range applies {
		apply := &applies[i]
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		template := byKey[key]
		if template == nil {
			found = append(found, Result{
				Status: Fail, Object: nameOf("WorkspaceTemplateApply", apply), Message: fmt.Sprintf("WorkspaceTemplate %s does not exist", key),
				Mend: "kubectl apply the template, or change spec.templateRef",
			})
			continue
		}
		ref := template.Spec.Template.Spec.ProviderConfigRef
		if ref != nil && !known[client.ObjectKey{Namespace: apply.Namespace, Name: ref.Name}] {
			found = append(found, Result{
				Status: Fail, Object: nameOf("WorkspaceTemplateApply", apply),
				Message: fmt.Sprintf("its template %s needs WorkspaceProviderConfig %s, which does not exist in namespace %s", template.Name, ref.Name, apply.Namespace),
				Mend:    "kubectl apply a WorkspaceProviderConfig of that name; examples/provider-config-aws.yaml shows one",
			})
		}
	}
	return found, nil
}
