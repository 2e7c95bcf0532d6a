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
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one look at a config.
type scope struct {
	config *infrav1.WorkspaceProviderConfig
	// secrets are the Secrets that exist, by name, with their keys.
	secrets map[string]map[string][]byte
}

// scope reads the Secrets that the config names. What is missing is for a step
// to say.
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

// reference is a key of a Secret that a field of the config names.
type reference struct {
	field string
	*infrav1.KeyReference
}

// references lists what the config names, in the order of its fields.
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

// secretNames lists the Secrets that the config names. A name with a
// placeholder is known only to a workspace, and left to it.
func secretNames(config *infrav1.WorkspaceProviderConfig) []string {
	var names []string
	for _, ref := range references(config) {
		if !ref.open() {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// open tells whether the name depends on the workspace.
func (ref reference) open() bool { return strings.Contains(ref.Name, "${") }

// mostMissing is how many missing things one message names.
const mostMissing = 5

// credentials waits until every Secret, with the key, exists. The watch of all
// Secrets' metadata ends the wait.
func credentials(_ context.Context, s *scope) error {
	var missing []string
	for _, ref := range references(s.config) {
		if ref.open() {
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
	text := strings.Join(missing[:min(len(missing), mostMissing)], "; ")
	if more := len(missing) - mostMissing; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fault.Wait(infrav1.WaitingForSecretReason, "%s", text)
}
