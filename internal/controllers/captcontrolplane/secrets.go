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
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Annotations that tell how fresh a kubeconfig is, also after a restart or a
// move, when there is no status.
const (
	inputsAnnotation    = "capt.appthrust.io/kubeconfig-inputs"
	renewedAtAnnotation = "capt.appthrust.io/renewed-at"
	renewAtAnnotation   = "capt.appthrust.io/renew-at"
	expiresAtAnnotation = "capt.appthrust.io/expires-at"
)

// secretLook is how soon a Secret is looked for again that is about to appear.
const secretLook = 2 * time.Second

// secretMarks tell what a kubeconfig was made from, and when.
type secretMarks struct {
	inputs string
	// renewAt and expiresAt are zero for what does not end.
	renewedAt, renewAt, expiresAt time.Time
}

func marksOf(found *corev1.Secret) secretMarks {
	if found == nil {
		return secretMarks{}
	}
	marks := secretMarks{inputs: found.Annotations[inputsAnnotation]}
	for name, into := range marks.times() {
		// What does not parse is as good as not there: the Secret is made anew.
		*into, _ = time.Parse(time.RFC3339, found.Annotations[name])
	}
	return marks
}

func (m *secretMarks) times() map[string]*time.Time {
	return map[string]*time.Time{renewedAtAnnotation: &m.renewedAt, renewAtAnnotation: &m.renewAt, expiresAtAnnotation: &m.expiresAt}
}

func (m *secretMarks) put(s *corev1.Secret) {
	s.Annotations = map[string]string{inputsAnnotation: m.inputs}
	for name, at := range m.times() {
		if !at.IsZero() {
			s.Annotations[name] = at.UTC().Format(time.RFC3339)
		}
	}
}

// newSecret is a Secret in the form that Cluster API wants.
func (s *scope) newSecret(purpose secret.Purpose, text []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.controlPlane.Namespace, Name: secret.Name(s.clusterName(), purpose),
			Labels: map[string]string{clusterv1.ClusterNameLabel: s.clusterName(), infrav1.ComponentLabel: componentKubeconfig},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: text},
	}
}

// findSecret reads a Secret of the control plane, or nil.
func (r *Reconciler) findSecret(ctx context.Context, s *scope, purpose secret.Purpose) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.controlPlane.Namespace, Name: secret.Name(s.clusterName(), purpose)}
	switch err := r.Client.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key.Name, err)
	case !metav1.IsControlledBy(found, s.controlPlane):
		return nil, foreign(key.Name)
	}
	return found, nil
}

func foreign(name string) error {
	return fault.Stall(infrav1.SecretConflictReason, "Secret %s exists and is not CAPT's: delete or rename it", name)
}

// keepSecret writes a Secret, and only what differs.
func (r *Reconciler) keepSecret(ctx context.Context, s *scope, found, wanted *corev1.Secret) error {
	if err := controllerutil.SetControllerReference(s.controlPlane, wanted, r.Client.Scheme()); err != nil {
		return fmt.Errorf("owning Secret %s: %w", wanted.Name, err)
	}
	if found == nil {
		err := r.Client.Create(ctx, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return wrap(err, "creating Secret %s", wanted.Name)
		}
		// It is not in the cache, which is behind or holds only CAPT's own.
		found = &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
			return wrap(err, "reading Secret %s", wanted.Name)
		}
		if !metav1.IsControlledBy(found, s.controlPlane) {
			return foreign(found.Name)
		}
	}
	changed := found.DeepCopy()
	changed.Data = wanted.Data
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Labels, wanted.Labels)
	maps.Copy(changed.Annotations, wanted.Annotations)
	if reflect.DeepEqual(found, changed) {
		return nil
	}
	return wrap(r.Client.Update(ctx, changed), "updating Secret %s", wanted.Name)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// forget removes the Secrets, which open nothing any more.
func (r *Reconciler) forget(ctx context.Context, s *scope) error {
	for _, purpose := range []secret.Purpose{secret.Kubeconfig, userKubeconfig} {
		found, err := r.findSecret(ctx, s, purpose)
		if _, stalled := fault.AsStalled(err); stalled || err == nil && found == nil {
			continue
		}
		if err != nil {
			return err
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, found)); err != nil {
			return wrap(err, "deleting Secret %s", found.Name)
		}
	}
	return nil
}
