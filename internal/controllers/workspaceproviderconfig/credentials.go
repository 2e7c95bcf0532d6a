package workspaceproviderconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is the data of one reconcile.
type scope struct {
	config *infrav1.WorkspaceProviderConfig
	// secrets has the data of the Secrets that exist, by name.
	secrets map[string]map[string][]byte
}

// scope reads the Secrets that the config refers to. The step credentials reports
// the ones that do not exist.
func (r *Reconciler) scope(ctx context.Context, config *infrav1.WorkspaceProviderConfig, _ *clusterv1.Cluster) (*scope, error) {
	s := &scope{config: config, secrets: map[string]map[string][]byte{}}
	if !config.DeletionTimestamp.IsZero() {
		return s, nil
	}
	for _, name := range secretNames(config) {
		var secret corev1.Secret
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: name}, &secret)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading Secret %s: %w", name, err)
		default:
			s.secrets[name] = secret.Data
		}
	}
	return s, nil
}

// reference is a reference of the config to a key of a Secret.
type reference struct {
	field string
	*infrav1.KeyReference
}

// references returns the references of the config, in the order of its fields.
func references(config *infrav1.WorkspaceProviderConfig) []reference {
	var refs []reference
	for i := range config.Spec.Credentials {
		refs = append(refs, reference{fmt.Sprintf("credentials[%d].secretRef", i), &config.Spec.Credentials[i].SecretRef})
	}
	if e := config.Spec.StateEncryption; e != nil && e.PassphraseSecretRef != nil {
		refs = append(refs, reference{"stateEncryption.passphraseSecretRef", e.PassphraseSecretRef})
	}
	if e := config.Spec.StateEncryption; e != nil && e.ConfigurationSecretRef != nil {
		refs = append(refs, reference{"stateEncryption.configurationSecretRef", e.ConfigurationSecretRef})
	}
	return refs
}

// secretNames returns the names of the Secrets that the config refers to. It
// leaves out names with a placeholder, which only a workspace can resolve.
func secretNames(config *infrav1.WorkspaceProviderConfig) []string {
	var names []string
	for _, ref := range references(config) {
		if !ref.hasPlaceholder() {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hasPlaceholder reports whether the name depends on the workspace.
func (ref reference) hasPlaceholder() bool { return strings.Contains(ref.Name, "${") }

// maxListed is the number of missing keys that one message lists.
const maxListed = 5

// credentials waits until all Secrets exist and have the keys. The watch of the
// metadata of all Secrets ends the wait.
func credentials(_ context.Context, s *scope) error {
	var missing []string
	for _, ref := range references(s.config) {
		if ref.hasPlaceholder() {
			continue
		}
		data, exists := s.secrets[ref.Name]
		if !exists {
			missing = append(missing, fmt.Sprintf("%s: Secret %s does not exist", ref.field, ref.Name))
		} else if _, found := data[ref.Key]; !found {
			missing = append(missing, fmt.Sprintf("%s: Secret %s has no key %s", ref.field, ref.Name, ref.Key))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.Wait(infrav1.WaitingForSecretReason, "%s", message.Sentences(missing, maxListed))
}
