package captcontrolplane

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Annotations with the version of a kubeconfig. They are on the Secret because the
// status is lost in a move to another management cluster.
const (
	inputsAnnotation    = "capt.appthrust.io/kubeconfig-inputs"
	renewedAtAnnotation = "capt.appthrust.io/renewed-at"
	renewAtAnnotation   = "capt.appthrust.io/renew-at"
	expiresAtAnnotation = "capt.appthrust.io/expires-at"
)

// componentKubeconfig is the component label of Secrets with kubeconfigs. The
// manager caches and watches only Secrets with a component label.
const componentKubeconfig = "kubeconfig"

// secretRetryInterval is the delay before a Secret that is about to be created is
// read again.
const secretRetryInterval = 2 * time.Second

// kubeconfigVersion records what a kubeconfig was created from, and when.
type kubeconfigVersion struct {
	// inputs is the fingerprint of the inputs.
	inputs string
	// renewAt and expiresAt are zero for a kubeconfig that does not expire.
	renewedAt, renewAt, expiresAt time.Time
}

// versionOf returns the version of the kubeconfig in a Secret, or the zero value
// if the Secret is nil.
func versionOf(found *corev1.Secret) kubeconfigVersion {
	if found == nil {
		return kubeconfigVersion{}
	}
	version := kubeconfigVersion{inputs: found.Annotations[inputsAnnotation]}
	for name, into := range version.times() {
		// An invalid time counts as missing, which renews the kubeconfig.
		*into, _ = time.Parse(time.RFC3339, found.Annotations[name])
	}
	return version
}

// isOutdated reports whether the kubeconfig was created from other inputs, or has
// to be renewed.
func (v kubeconfigVersion) isOutdated(inputs string, now time.Time) bool {
	return v.inputs != inputs || !now.Before(v.renewAt)
}

func (v *kubeconfigVersion) times() map[string]*time.Time {
	return map[string]*time.Time{renewedAtAnnotation: &v.renewedAt, renewAtAnnotation: &v.renewAt, expiresAtAnnotation: &v.expiresAt}
}

// annotate writes the version to a Secret.
func (v kubeconfigVersion) annotate(s *corev1.Secret) {
	s.Annotations = map[string]string{inputsAnnotation: v.inputs}
	for name, at := range v.times() {
		if !at.IsZero() {
			s.Annotations[name] = at.UTC().Format(time.RFC3339)
		}
	}
}

// newSecret returns a Secret in the form that Cluster API requires.
func (s *scope) newSecret(purpose secret.Purpose, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.controlPlane.Namespace, Name: secret.Name(s.clusterName(), purpose),
			Labels: map[string]string{clusterv1.ClusterNameLabel: s.clusterName(), infrav1.ComponentLabel: componentKubeconfig},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: kubeconfig},
	}
}

// findSecret returns a Secret of the control plane, or nil if it does not exist.
// It stalls on a Secret with another owner.
func (r *Reconciler) findSecret(ctx context.Context, s *scope, purpose secret.Purpose) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.controlPlane.Namespace, Name: secret.Name(s.clusterName(), purpose)}
	switch err := r.Client.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key.Name, err)
	case !metav1.IsControlledBy(found, s.controlPlane):
		return nil, conflict(key.Name)
	}
	return found, nil
}

func conflict(name string) error {
	return fault.Stall(infrav1.SecretConflictReason, "Secret %s exists and has another owner: delete or rename it", name)
}

// ensureSecret creates a Secret, or updates found if it differs. found is nil if
// the Secret is not in the cache.
func (r *Reconciler) ensureSecret(ctx context.Context, s *scope, found, wanted *corev1.Secret) error {
	if err := controllerutil.SetControllerReference(s.controlPlane, wanted, r.Client.Scheme()); err != nil {
		return fmt.Errorf("owning Secret %s: %w", wanted.Name, err)
	}
	if found == nil {
		err := r.Client.Create(ctx, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return wrap(err, "creating Secret %s", wanted.Name)
		}
		// The cache is outdated, or does not contain a Secret without the label.
		found = &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
			return wrap(err, "reading Secret %s", wanted.Name)
		}
		if !metav1.IsControlledBy(found, s.controlPlane) {
			return conflict(found.Name)
		}
	}
	changed := withContent(found, wanted)
	if reflect.DeepEqual(found, changed) {
		return nil
	}
	return wrap(r.Client.Update(ctx, changed), "updating Secret %s", wanted.Name)
}

// withContent returns found with the data, labels and annotations of wanted. Other
// labels and annotations are kept.
func withContent(found, wanted *corev1.Secret) *corev1.Secret {
	changed := found.DeepCopy()
	changed.Data = wanted.Data
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, wanted.Labels)
	if changed.Annotations == nil && len(wanted.Annotations) > 0 {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Annotations, wanted.Annotations)
	return changed
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// deleteSecrets deletes the kubeconfigs of a destroyed cluster. Secrets with
// another owner are kept.
func (r *Reconciler) deleteSecrets(ctx context.Context, s *scope) error {
	for _, purpose := range []secret.Purpose{secret.Kubeconfig, workload.UserKubeconfig} {
		found, err := r.findSecret(ctx, s, purpose)
		if _, stalled := fault.AsStalled(err); stalled || err == nil && found == nil {
			continue
		}
		if err != nil {
			return err
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID})); err != nil {
			return wrap(err, "deleting Secret %s", found.Name)
		}
	}
	return nil
}
