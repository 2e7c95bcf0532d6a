package captaddon

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// An add-on that a CAPTReferenceGrant lends to other namespaces has a copy in each of them
// that has a cluster which the add-on selects: Cluster API installs add-ons only from the
// namespace of the cluster. The copy follows the add-on, whatever users change in it, and
// takes manifests from ConfigMaps and Secrets beside the add-on.

// lendInterval is how often a namespace with clusters that the add-on selects is checked
// while it is not granted.
const lendInterval = 30 * time.Second

// recallInterval is how often the copies of an add-on that is being deleted are checked.
const recallInterval = 5 * time.Second

// lend creates the copies that are missing. Copies are not lent further.
func (r *Reconciler) lend(ctx context.Context, s *scope) error {
	if s.isCopy() || r.noGrants {
		return nil
	}
	if lends, err := r.Grants.Lends(ctx, s.addon.Namespace, infrav1.GrantedCAPTAddon); err != nil || !lends {
		return err
	}
	var clusters clusterv1.ClusterList
	if err := r.Client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	var namespaces []string
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if cluster.Namespace != s.addon.Namespace && cluster.DeletionTimestamp.IsZero() && s.addon.Selects(cluster.Labels) && !slices.Contains(namespaces, cluster.Namespace) {
			namespaces = append(namespaces, cluster.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range namespaces {
		if err := r.lendTo(ctx, s, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) lendTo(ctx context.Context, s *scope, namespace string) error {
	err := r.Grants.Check(ctx, namespace, infrav1.GrantedCAPTAddon, client.ObjectKeyFromObject(s.addon))
	if fault.Is(err) {
		// There is no watch for the labels of namespaces.
		s.requeue(lendInterval)
		return nil
	}
	if err != nil {
		return err
	}
	key, existing := client.ObjectKey{Namespace: namespace, Name: s.addon.Name}, &addonsv1.CAPTAddon{}
	if err := r.Client.Get(ctx, key, existing); err == nil || !apierrors.IsNotFound(err) {
		if err == nil && existing.Annotations[addonsv1.LentFromAnnotation] != s.addon.Namespace {
			nameTaken(namespace).Record(r.Recorder, s.addon, existing)
		}
		return client.IgnoreNotFound(err)
	}
	lent := &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.addon.Name, Annotations: map[string]string{addonsv1.LentFromAnnotation: s.addon.Namespace}},
		Spec:       *s.addon.Spec.DeepCopy(),
	}
	if filter := s.addon.Labels[clusterv1.WatchLabel]; filter != "" {
		lent.Labels = map[string]string{clusterv1.WatchLabel: filter}
	}
	if err := r.Client.Create(ctx, lent); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("lending the add-on to namespace %s: %w", namespace, err)
	}
	return nil
}

// recall deletes the copies of an add-on that is being deleted, and waits for them.
func (r *Reconciler) recall(ctx context.Context, s *scope) error {
	if s.isCopy() {
		return nil
	}
	var addons addonsv1.CAPTAddonList
	if err := r.Client.List(ctx, &addons); err != nil {
		return fmt.Errorf("listing the copies of the add-on: %w", err)
	}
	var namespaces []string
	for i := range addons.Items {
		lent := &addons.Items[i]
		if lent.Name != s.addon.Name || lender(lent) != s.addon.Namespace {
			continue
		}
		held, err := r.holds(ctx, s.addon, lent)
		if err != nil {
			return err
		}
		if held {
			namespaces = append(namespaces, lent.Namespace)
		}
		if !lent.DeletionTimestamp.IsZero() {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, lent, client.Preconditions{UID: &lent.UID})); err != nil {
			return fmt.Errorf("deleting the copy of the add-on in namespace %s: %w", lent.Namespace, err)
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	slices.Sort(namespaces)
	return fault.WaitFor(recallInterval, addonsv1.RemovingReason, "Waiting for the deletion of the copies in namespaces %s", message.List(namespaces, 5))
}

// holds reports whether the deletion of an add-on waits for a copy: one that is lent, or that has
// been installed. A user may write the annotation of a copy, and add finalizers to it.
func (r *Reconciler) holds(ctx context.Context, addon, lent *addonsv1.CAPTAddon) (bool, error) {
	switch err := r.Grants.Check(ctx, lent.Namespace, infrav1.GrantedCAPTAddon, client.ObjectKeyFromObject(addon)); {
	case err == nil:
		return true, nil
	case !fault.Is(err):
		return false, err
	}
	return len(lent.Status.Clusters) > 0, nil
}

func (s *scope) isCopy() bool { return lender(s.addon) != "" }

// lender returns the namespace that lends an add-on, or an empty string if the add-on is not a copy.
func lender(addon *addonsv1.CAPTAddon) string {
	if from := addon.Annotations[addonsv1.LentFromAnnotation]; from != addon.Namespace {
		return from
	}
	return ""
}

// sources returns the namespace of the ConfigMaps and Secrets with the manifests of the
// add-on.
func (s *scope) sources() string {
	if from := lender(s.addon); from != "" {
		return from
	}
	return s.addon.Namespace
}

// borrow gives a copy the spec of the add-on that is lent. It returns a fault if the add-on
// is not granted any more: what is installed stays. It stays, too, if the add-on does not
// exist: it may be about to be restored, or has been moved. A copy is deleted when the add-on is.
func (r *Reconciler) borrow(ctx context.Context, addon *addonsv1.CAPTAddon) error {
	from := lender(addon)
	if from == "" || !addon.DeletionTimestamp.IsZero() {
		return nil
	}
	key, lent := client.ObjectKey{Namespace: from, Name: addon.Name}, &addonsv1.CAPTAddon{}
	if err := r.Grants.Check(ctx, addon.Namespace, infrav1.GrantedCAPTAddon, key); err != nil {
		return err
	}
	err := r.Client.Get(ctx, key, lent)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the add-on %s: %w", key, err)
	}
	if err != nil || reconcile.IsMoved(lent) {
		return fault.Wait(addonsv1.SourceNotFoundReason, "CAPTAddon %s, of which this is a copy, does not exist: restore it, or delete this copy", key)
	}
	if !lent.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, addon, client.Preconditions{UID: &addon.UID})); err != nil {
			return fmt.Errorf("deleting the copy of add-on %s: %w", key, err)
		}
		return fault.Wait(clusterv1.DeletingReason, "CAPTAddon %s, of which this is a copy, was deleted", key)
	}
	addon.Spec = *lent.Spec.DeepCopy()
	return nil
}

// withhold ends the steps of a copy whose add-on is not lent any more. What is installed
// stays, except in clusters that are being deleted: their deletion waits for the removal.
func (r *Reconciler) withhold(ctx context.Context, s *scope) error {
	if s.notLent == nil {
		return nil
	}
	err := s.each(func(in *installation) error {
		if in.cluster != nil && in.cluster.DeletionTimestamp.IsZero() {
			return nil
		}
		return r.remove(ctx, s, in)
	})
	handled := s.addon.Status.HandledTrigger
	r.publish(s)
	s.addon.Status.HandledTrigger = handled
	if err != nil {
		return err
	}
	if stalled, ok := fault.AsStalled(s.notLent); ok && s.requeueAfter > 0 {
		return fault.WaitFor(s.requeueAfter, stalled.Reason, "%s", stalled.Message())
	}
	if waiting, ok := fault.AsWaiting(s.notLent); ok && s.requeueAfter > 0 {
		return fault.WaitFor(s.requeueAfter, waiting.Reason, "%s", waiting.Message())
	}
	return s.notLent
}

// addonsOfGrant returns the add-ons that a grant may lend, and their copies.
func (r *Reconciler) addonsOfGrant(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, "", func(addon *addonsv1.CAPTAddon) bool {
		return addon.Namespace == obj.GetNamespace() || lender(addon) == obj.GetNamespace()
	})
}

// copiesOf returns the copies of an add-on.
func (r *Reconciler) copiesOf(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, "", func(addon *addonsv1.CAPTAddon) bool {
		return addon.Name == obj.GetName() && lender(addon) == obj.GetNamespace()
	})
}

// lentToCluster returns the add-ons of other namespaces that select a Cluster and may have
// no copy beside it yet.
func (r *Reconciler) lentToCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, "", func(addon *addonsv1.CAPTAddon) bool {
		return addon.Namespace != obj.GetNamespace() && lender(addon) == "" && addon.Selects(obj.GetLabels())
	})
}
