package workspace

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Template reads the template that an object in a namespace refers to, and
// waits for it to exist.
func (k *Keeper) Template(ctx context.Context, namespace string, ref infrav1.TemplateReference) (*infrav1.WorkspaceTemplate, error) {
	key := ref.Key(namespace)
	template := &infrav1.WorkspaceTemplate{}
	err := k.Client.Get(ctx, key, template)
	if apierrors.IsNotFound(err) {
		return nil, fault.Wait(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s does not exist: create it, or change the reference", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading template %s: %w", key, err)
	}
	return template, nil
}

// credentialLook is how soon a missing credential is looked for again.
const credentialLook = 30 * time.Second

// Credentials is what the runs of a template know of the cloud.
type Credentials struct {
	// Env are environment variables, Files files beside the module.
	Env   map[string]string
	Files map[string][]byte
}

// Credentials reads what runs of the template in a namespace are given, so that
// the manager speaks to the cloud as they do. Without any it speaks as itself.
func (k *Keeper) Credentials(ctx context.Context, namespace string, template *infrav1.WorkspaceTemplate) (*Credentials, error) {
	found := &Credentials{Env: map[string]string{}, Files: map[string][]byte{}}
	ref := template.Spec.Template.Spec.ProviderConfigRef
	if ref == nil {
		return found, nil
	}
	var config infrav1.WorkspaceProviderConfig
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &config)
	if apierrors.IsNotFound(err) {
		return nil, fault.Wait(infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig %s does not exist: create it in namespace %s", ref.Name, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading provider config %s: %w", ref.Name, err)
	}
	for _, c := range config.Spec.Credentials {
		var secret corev1.Secret
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: c.SecretRef.Name}, &secret)
		value, has := secret.Data[c.SecretRef.Key]
		switch {
		case apierrors.IsNotFound(err), err == nil && !has:
			return nil, fault.WaitFor(credentialLook, infrav1.WaitingForSecretReason, "Secret %s with key %s does not exist, which WorkspaceProviderConfig %s refers to", c.SecretRef.Name, c.SecretRef.Key, ref.Name)
		case err != nil:
			return nil, fmt.Errorf("reading Secret %s: %w", c.SecretRef.Name, err)
		case c.Env != "":
			found.Env[c.Env] = string(value)
		default:
			found.Files[c.Filename] = value
		}
	}
	for _, e := range template.Spec.Template.Spec.ForProvider.Env {
		if e.Value != nil {
			maps.Copy(found.Env, map[string]string{e.Name: *e.Value})
		}
	}
	return found, nil
}
