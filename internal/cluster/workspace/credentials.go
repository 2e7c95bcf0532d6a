package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// credentialsRetryInterval is the delay before a missing Secret with credentials is
// read again. Secrets of users are not watched.
const credentialsRetryInterval = 30 * time.Second

// Credentials are the cloud credentials of a template's runs.
type Credentials struct {
	// Env holds environment variables.
	Env map[string]string
	// Files holds files by name. A run has them in the directory of the module.
	Files map[string][]byte
	// Lent is the provider config of another namespace that they are from, or nil. Users of
	// this namespace must not choose what CAPT does with them.
	Lent *infrav1.WorkspaceProviderConfig
}

// CheckRole returns a fault if a role must not be assumed with the credentials.
func (c *Credentials) CheckRole(arn string) error {
	if c.Lent == nil || arn == "" || c.Lent.Spec.Lending != nil && slices.Contains(c.Lent.Spec.Lending.RoleARNs, arn) {
		return nil
	}
	return fault.WaitFor(credentialsRetryInterval, infrav1.NotAllowedReason, "Role %s must not be assumed with the lent WorkspaceProviderConfig %s: remove roleARN, or ask the owners of the config to add the role to spec.lending.roleARNs",
		arn, client.ObjectKeyFromObject(c.Lent))
}

// Credentials returns the credentials of runs of the template in a namespace, so
// that the manager calls the cloud with the same identity. They are empty if the
// template has no provider config.
//
// They may be lent. For calls about what outputs name, use OutputCredentials.
func (k *Keeper) Credentials(ctx context.Context, namespace string, template *infrav1.WorkspaceTemplate) (*Credentials, error) {
	config, err := k.providerConfig(ctx, namespace, template)
	if err != nil {
		return nil, err
	}
	return k.readCredentials(ctx, namespace, config, template)
}

// OutputCredentials returns the credentials for calls about what the outputs of a workspace
// name, such as a token for its cluster. The template is that of the next run.
//
// Lent credentials are those of the run that wrote the outputs. Otherwise, a user could
// write outputs with a template of his own, and then switch to a lent one.
func (k *Keeper) OutputCredentials(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (*Credentials, error) {
	if apply.Status.Host != nil {
		source, err := k.hostSource(ctx, apply)
		if err != nil {
			return nil, err
		}
		config, template, err := k.readSource(ctx, apply.Namespace, source)
		if err != nil {
			return nil, err
		}
		return k.readCredentials(ctx, apply.Namespace, config, template)
	}
	config, err := k.providerConfig(ctx, apply.Namespace, template)
	if err != nil {
		return nil, err
	}
	if config != nil && config.Namespace != apply.Namespace {
		return nil, foreignOutputs(apply, config.Namespace)
	}
	return k.readCredentials(ctx, apply.Namespace, config, template)
}

// foreignOutputs is the fault of outputs for which lent credentials must not be used.
func foreignOutputs(apply *infrav1.WorkspaceTemplateApply, lender string) error {
	return fault.Wait(infrav1.NotAllowedReason, "The outputs of WorkspaceTemplateApply %s were not written by a run with the credentials that namespace %s lends, so these are not used for what the outputs name: wait for such a run, or use a provider config of this namespace", apply.Name, lender)
}

// hostSource returns what the run used that wrote the outputs of a workspace, according to
// the workspace of another namespace that runs for it. The users of this one cannot write
// that.
func (k *Keeper) hostSource(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*infrav1.OutputsSource, error) {
	host, key := &infrav1.WorkspaceTemplateApply{}, client.ObjectKey{Namespace: apply.Status.Host.Namespace, Name: apply.Status.Host.Name}
	if err := k.Client.Get(ctx, key, host); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", key, err)
	}
	source := host.Status.OutputsSource
	guestNamespace, guest := host.HostedFor()
	switch {
	case key.Namespace == apply.Namespace || guestNamespace != apply.Namespace || guest != apply.Name,
		source == nil || source.ProviderConfigRef == nil || source.ProviderConfigRef.Namespace != key.Namespace || source.TemplateRef.Namespace != key.Namespace:
		return nil, foreignOutputs(apply, key.Namespace)
	case !equality.Semantic.DeepEqual(host.Status.Outputs, apply.Status.Outputs):
		return nil, fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s does not have the outputs of workspace %s yet", apply.Name, key)
	}
	return source, nil
}

// readSource reads what a run used. The grants must cover it.
func (k *Keeper) readSource(ctx context.Context, namespace string, source *infrav1.OutputsSource) (*infrav1.WorkspaceProviderConfig, *infrav1.WorkspaceTemplate, error) {
	template, err := k.Template(ctx, namespace, infrav1.TemplateReference{Namespace: source.TemplateRef.Namespace, Name: source.TemplateRef.Name})
	if err != nil {
		return nil, nil, err
	}
	config := &infrav1.WorkspaceProviderConfig{}
	key := client.ObjectKey{Namespace: source.ProviderConfigRef.Namespace, Name: source.ProviderConfigRef.Name}
	err = k.Grants.ProviderConfig(ctx, namespace, key, config)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig "+key.String(), "create it"); err != nil {
		return nil, nil, err
	}
	return config, template, nil
}

// providerConfig returns the provider config of runs of the template in a namespace, or nil.
// It may be lent, and is then of the namespace of the template.
func (k *Keeper) providerConfig(ctx context.Context, namespace string, template *infrav1.WorkspaceTemplate) (*infrav1.WorkspaceProviderConfig, error) {
	ref := template.Spec.Template.Spec.ProviderConfigRef
	if ref == nil {
		return nil, nil
	}
	config := &infrav1.WorkspaceProviderConfig{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, config)
	if apierrors.IsNotFound(err) && template.Namespace != "" && template.Namespace != namespace {
		err = k.Grants.ProviderConfig(ctx, namespace, client.ObjectKey{Namespace: template.Namespace, Name: ref.Name}, config)
	}
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig "+ref.Name, "create it in namespace "+namespace); err != nil {
		return nil, err
	}
	if err := grant.CheckTemplate(config, client.ObjectKeyFromObject(template)); err != nil {
		return nil, err
	}
	return config, nil
}

// readCredentials returns the credentials of runs of a template with a provider config. They
// are empty if there is none.
func (k *Keeper) readCredentials(ctx context.Context, namespace string, config *infrav1.WorkspaceProviderConfig, template *infrav1.WorkspaceTemplate) (*Credentials, error) {
	found := &Credentials{Env: map[string]string{}, Files: map[string][]byte{}}
	if config == nil {
		return found, nil
	}
	if config.Namespace != namespace {
		found.Lent = config
	}
	for _, c := range config.Spec.Credentials {
		var secret corev1.Secret
		// The manager alone uses the credentials of a config of another namespace.
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: c.SecretRef.Name}, &secret)
		value, has := secret.Data[c.SecretRef.Key]
		switch {
		case apierrors.IsNotFound(err), err == nil && !has:
			return nil, fault.WaitFor(credentialsRetryInterval, infrav1.WaitingForSecretReason, "Secret %s with key %s of WorkspaceProviderConfig %s does not exist: create it", c.SecretRef.Name, c.SecretRef.Key, config.Name)
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
