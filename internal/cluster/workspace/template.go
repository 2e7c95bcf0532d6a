package workspace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Template returns the template that an object in a namespace refers to. It waits
// for a template that does not exist, or that is not granted to the namespace.
func (k *Keeper) Template(ctx context.Context, namespace string, ref infrav1.TemplateReference) (*infrav1.WorkspaceTemplate, error) {
	key := ref.Key(namespace)
	if err := k.Grants.Check(ctx, namespace, infrav1.GrantedWorkspaceTemplate, key); err != nil {
		return nil, err
	}
	template := &infrav1.WorkspaceTemplate{}
	err := k.Client.Get(ctx, key, template)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForTemplateReason, "WorkspaceTemplate "+key.String(), "create it, or change the reference"); err != nil {
		return nil, err
	}
	return template, nil
}

// EnsureFrom reads the template that an owner refers to, and ensures the workspace
// that desired returns for it.
func (k *Keeper) EnsureFrom(ctx context.Context, owner client.Object, ref infrav1.TemplateReference, desired func(*infrav1.WorkspaceTemplate) (Desired, error)) (*infrav1.WorkspaceTemplateApply, error) {
	template, err := k.Template(ctx, owner.GetNamespace(), ref)
	if err != nil {
		return nil, err
	}
	wanted, err := desired(template)
	if err != nil {
		return nil, err
	}
	return k.Ensure(ctx, owner, wanted)
}

// credentialsRetryInterval is the delay before a missing Secret with credentials is
// read again. Secrets of users are not watched.
const credentialsRetryInterval = 30 * time.Second

// Credentials are the cloud credentials of a template's runs.
type Credentials struct {
	// Env holds environment variables.
	Env map[string]string
	// Files holds files by name. A run has them in the directory of the module.
	Files map[string][]byte
}

// Credentials returns the credentials of runs of the template in a namespace, so
// that the manager calls the cloud with the same identity. They are empty if the
// template has no provider config.
func (k *Keeper) Credentials(ctx context.Context, namespace string, template *infrav1.WorkspaceTemplate) (*Credentials, error) {
	found := &Credentials{Env: map[string]string{}, Files: map[string][]byte{}}
	ref := template.Spec.Template.Spec.ProviderConfigRef
	if ref == nil {
		return found, nil
	}
	var config infrav1.WorkspaceProviderConfig
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &config)
	if apierrors.IsNotFound(err) && template.Namespace != "" && template.Namespace != namespace {
		err = k.Grants.ProviderConfig(ctx, namespace, client.ObjectKey{Namespace: template.Namespace, Name: ref.Name}, &config)
	}
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig "+ref.Name, "create it in namespace "+namespace); err != nil {
		return nil, err
	}
	for _, c := range config.Spec.Credentials {
		var secret corev1.Secret
		// The manager alone uses the credentials of a config of another namespace.
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: c.SecretRef.Name}, &secret)
		value, has := secret.Data[c.SecretRef.Key]
		switch {
		case apierrors.IsNotFound(err), err == nil && !has:
			return nil, fault.WaitFor(credentialsRetryInterval, infrav1.WaitingForSecretReason, "Secret %s with key %s of WorkspaceProviderConfig %s does not exist: create it", c.SecretRef.Name, c.SecretRef.Key, ref.Name)
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
			found.Env[e.Name] = *e.Value
		}
	}
	return found, nil
}
