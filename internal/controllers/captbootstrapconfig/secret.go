package captbootstrapconfig

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// The keys of the Secret, as Cluster API names them.
const (
	valueKey  = "value"
	formatKey = "format"
)

// componentBootstrap marks the Secrets that hold bootstrap data, so that they
// are cached and watched.
const componentBootstrap = "bootstrap"

// conflictLook is how soon a Secret in the way is looked for again: those of
// other people are not watched.
const conflictLook = 30 * time.Second

// The kinds that own a config.
const (
	machineKind     = "Machine"
	machinePoolKind = "MachinePool"
)

// scope is what was read for one look at a config.
type scope struct {
	config  *bootstrapv1.CAPTBootstrapConfig
	cluster *clusterv1.Cluster
	// owner is the kind that owns the config.
	owner string
}

// scope waits for the Machine or MachinePool that the data are for. Cluster API
// makes the config first: until then a MachineSet owns it.
func (r *Reconciler) scope(_ context.Context, config *bootstrapv1.CAPTBootstrapConfig, cluster *clusterv1.Cluster) (*scope, error) {
	owner := ownerKind(config.OwnerReferences)
	if owner == "" {
		return nil, fault.Wait(bootstrapv1.WaitingForOwnerReason, "No Machine or MachinePool owns this CAPTBootstrapConfig: name it in spec.bootstrap.configRef of one")
	}
	if cluster == nil {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTBootstrapConfig belongs to no Cluster: its %s sets the label %s", owner, clusterv1.ClusterNameLabel)
	}
	return &scope{config: config, cluster: cluster, owner: owner}, nil
}

func ownerKind(owners []metav1.OwnerReference) string {
	for _, ref := range owners {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == clusterv1.GroupVersion.Group && (ref.Kind == machineKind || ref.Kind == machinePoolKind) {
			return ref.Kind
		}
	}
	return ""
}

// dataSecret makes the Secret, and tells Cluster API once and for all. The data
// of a Machine are read when it starts, so they stay what they were; those of a
// MachinePool are also for nodes to come.
func (r *Reconciler) dataSecret(ctx context.Context, s *scope) error {
	wanted, err := r.render(s)
	if err != nil {
		return err
	}
	found := &corev1.Secret{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if apierrors.IsNotFound(err) {
		if err = r.Client.Create(ctx, wanted); apierrors.IsAlreadyExists(err) {
			// It is not in the cache, which is behind or holds only CAPT's own.
			found = &corev1.Secret{}
			err = r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found)
		} else if err == nil {
			found = wanted
		}
	}
	if err != nil {
		return fmt.Errorf("making Secret %s: %w", wanted.Name, err)
	}
	if !metav1.IsControlledBy(found, s.config) {
		return fault.WaitFor(conflictLook, bootstrapv1.SecretConflictReason, "Secret %s exists and belongs to somebody else: delete or rename it", found.Name)
	}
	if err := r.update(ctx, s, found, wanted); err != nil {
		return err
	}
	s.config.Status.DataSecretName = wanted.Name
	s.config.Status.Initialization.DataSecretCreated = new(true)
	return nil
}

// render is the Secret in the form that Cluster API wants. Its name can be told
// from the config alone, so that it is found again after a move.
func (r *Reconciler) render(s *scope) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.config.Namespace, Name: s.config.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name, infrav1.ComponentLabel: componentBootstrap},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{valueKey: []byte(s.config.Spec.UserData)},
	}
	if s.config.Spec.Format != "" {
		secret.Data[formatKey] = []byte(s.config.Spec.Format)
	}
	if err := controllerutil.SetControllerReference(s.config, secret, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning Secret %s: %w", secret.Name, err)
	}
	return secret, nil
}

// update writes what differs.
func (r *Reconciler) update(ctx context.Context, s *scope, found, wanted *corev1.Secret) error {
	changed := found.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, wanted.Labels)
	if _, has := found.Data[valueKey]; s.owner == machinePoolKind || !has {
		changed.Data = wanted.Data
	}
	if apiequality.Semantic.DeepEqual(found, changed) {
		return nil
	}
	if err := r.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("updating Secret %s: %w", wanted.Name, err)
	}
	return nil
}

func dataSecretMessage(s *scope) string { return "Secret " + s.config.Status.DataSecretName }
