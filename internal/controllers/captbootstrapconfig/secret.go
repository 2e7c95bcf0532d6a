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

// componentBootstrap is the label value of Secrets with bootstrap data, which makes
// the manager cache and watch them.
const componentBootstrap = "bootstrap"

// conflictRetry is how soon a conflicting Secret is checked again. Secrets of
// others are not watched.
const conflictRetry = 30 * time.Second

// The kinds that own a config.
const (
	machineKind     = "Machine"
	machinePoolKind = "MachinePool"
)

// scope is what one reconcile of a config has read.
type scope struct {
	config  *bootstrapv1.CAPTBootstrapConfig
	cluster *clusterv1.Cluster
	// owner is the kind of the owner.
	owner string
}

// scope waits for the owning Machine or MachinePool. Cluster API creates the config
// before a Machine; until then a MachineSet owns the config.
func (r *Reconciler) scope(_ context.Context, config *bootstrapv1.CAPTBootstrapConfig, cluster *clusterv1.Cluster) (*scope, error) {
	owner := ownerKind(config.OwnerReferences)
	if owner == "" {
		return nil, fault.Wait(bootstrapv1.WaitingForOwnerReason, "No Machine or MachinePool owns this CAPTBootstrapConfig: refer to it in spec.bootstrap.configRef of one")
	}
	if cluster == nil {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTBootstrapConfig has no Cluster: waiting for its %s to set the label %s", owner, clusterv1.ClusterNameLabel)
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

// dataSecret creates the Secret and reports it to Cluster API. The data of a
// Machine are read once, when it starts, and are not updated. Those of a
// MachinePool are updated for nodes that start later.
func (r *Reconciler) dataSecret(ctx context.Context, s *scope) error {
	desired, err := r.render(s)
	if err != nil {
		return err
	}
	found := &corev1.Secret{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(desired), found)
	if apierrors.IsNotFound(err) {
		if err := checkName(desired.Name); err != nil {
			return err
		}
		if err = r.Client.Create(ctx, desired); apierrors.IsAlreadyExists(err) {
			// The cache is outdated, or the Secret is not one of CAPT.
			found = &corev1.Secret{}
			err = r.Live.Get(ctx, client.ObjectKeyFromObject(desired), found)
		} else if err == nil {
			found = desired
		}
	}
	if err != nil {
		return fmt.Errorf("creating Secret %s: %w", desired.Name, err)
	}
	if !metav1.IsControlledBy(found, s.config) {
		return fault.WaitFor(conflictRetry, bootstrapv1.SecretConflictReason, "Secret %s exists and has another owner: delete or rename it", found.Name)
	}
	if err := r.update(ctx, s, found, desired); err != nil {
		return err
	}
	s.config.Status.DataSecretName = desired.Name
	s.config.Status.Initialization.DataSecretCreated = new(true)
	return nil
}

// checkName refuses the names of Secrets that CAPT or Cluster API find by their name: a
// user could otherwise have a kubeconfig or a state created.
func checkName(name string) error {
	if !infrav1.IsReservedSecretName(name) && !infrav1.IsClusterSecretName(name) {
		return nil
	}
	return fault.Stall(infrav1.ReservedNameReason, "CAPT or Cluster API uses Secrets with names like %s for something else, and the Secret has the name of the config: create one with another name", name)
}

// render returns the Secret in the format of Cluster API. Its name depends on the
// config only, so that it is found after a move to another management cluster.
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

// update updates an existing Secret if it differs.
func (r *Reconciler) update(ctx context.Context, s *scope, found, desired *corev1.Secret) error {
	changed := found.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, desired.Labels)
	if _, exists := found.Data[valueKey]; s.owner == machinePoolKind || !exists {
		changed.Data = desired.Data
	}
	if apiequality.Semantic.DeepEqual(found, changed) {
		return nil
	}
	if err := r.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("updating Secret %s: %w", desired.Name, err)
	}
	return nil
}

func dataSecretMessage(s *scope) string {
	return "Secret " + s.config.Status.DataSecretName + " exists"
}
