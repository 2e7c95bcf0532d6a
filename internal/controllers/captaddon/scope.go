package captaddon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one reconciliation of an add-on.
type scope struct {
	addon *addonsv1.CAPTAddon
	// addons are all add-ons of the namespace, sorted by name.
	addons []addonsv1.CAPTAddon
	// installations are sorted by the name of the cluster.
	installations []*installation
	now           time.Time
	// notLent is why a copy of an add-on of another namespace must not be installed, or nil.
	notLent error
	// requeueAfter is when to reconcile again without a watch event. Zero means
	// never.
	requeueAfter time.Duration
}

// installation is the add-on in one cluster.
type installation struct {
	// name is the name of the cluster.
	name string
	// cluster is nil if it does not exist.
	cluster *clusterv1.Cluster
	// controlPlane is nil if it does not exist or is of another provider.
	controlPlane *controlplanev1.CAPTControlPlane
	// ofCAPT reports whether the control plane is a CAPTControlPlane.
	ofCAPT bool
	// selected reports whether the add-on selects the cluster, and neither is being
	// deleted.
	selected bool
	// resourceSet and secret are what Cluster API applies, or nil. The secret has
	// no data.
	resourceSet *clusteraddonsv1.ClusterResourceSet
	secret      *corev1.Secret
	// rendered is the desired content without its data. renderErr is why there is
	// none.
	rendered  *rendering
	renderErr error

	previous, current addonsv1.ClusterAddonStatus
	// removed reports that the cluster has nothing of the add-on.
	removed bool
}

// related are the objects in the namespace of an add-on that concern it.
type related struct {
	addons        []addonsv1.CAPTAddon
	clusters      []clusterv1.Cluster
	controlPlanes []controlplanev1.CAPTControlPlane
	resourceSets  []clusteraddonsv1.ClusterResourceSet
	secrets       []corev1.Secret
}

// scope reads the objects that concern an add-on.
func (r *Reconciler) scope(ctx context.Context, addon *addonsv1.CAPTAddon, _ *clusterv1.Cluster) (*scope, error) {
	var (
		addons        addonsv1.CAPTAddonList
		clusters      clusterv1.ClusterList
		controlPlanes controlplanev1.CAPTControlPlaneList
		resourceSets  clusteraddonsv1.ClusterResourceSetList
		secrets       corev1.SecretList
	)
	notLent := r.borrow(ctx, addon)
	if notLent != nil && !fault.Is(notLent) {
		return nil, notLent
	}
	namespace := client.InNamespace(addon.Namespace)
	rendered := client.MatchingLabels{addonsv1.AddonLabel: addon.Name}
	for _, read := range []func() error{
		func() error { return r.Client.List(ctx, &addons, namespace) },
		func() error { return r.Client.List(ctx, &clusters, namespace) },
		func() error { return r.listControlPlanes(ctx, &controlPlanes, addon.Namespace) },
		func() error { return r.Client.List(ctx, &resourceSets, namespace, rendered) },
		func() error { return r.Client.List(ctx, &secrets, namespace, rendered) },
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("listing the objects of the add-on: %w", err)
		}
	}
	s, err := newScope(addon, r.Now(), related{
		addons: addons.Items, clusters: clusters.Items, controlPlanes: controlPlanes.Items,
		resourceSets: resourceSets.Items, secrets: secrets.Items,
	})
	if err == nil {
		s.notLent = notLent
	}
	return s, err
}

// listControlPlanes lists the CAPTControlPlanes of a namespace, if the API server has the kind.
func (r *Reconciler) listControlPlanes(ctx context.Context, list *controlplanev1.CAPTControlPlaneList, namespace string, options ...client.ListOption) error {
	if r.noControlPlanes {
		return nil
	}
	return r.Client.List(ctx, list, append(options, client.InNamespace(namespace))...)
}

// newScope returns the scope with an installation for each cluster that the
// add-on selects, and for each that has something of it.
func newScope(addon *addonsv1.CAPTAddon, now time.Time, objects related) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	if err != nil {
		return nil, fault.Stall(addonsv1.InvalidManifestReason, "clusterSelector is invalid: %w", err)
	}
	s := &scope{addon: addon, now: now, addons: objects.addons}
	// A cache lists in any order, and messages name the first.
	slices.SortFunc(s.addons, func(a, b addonsv1.CAPTAddon) int { return strings.Compare(a.Name, b.Name) })

	installations := map[string]*installation{}
	of := func(cluster string) *installation {
		if installations[cluster] == nil {
			installations[cluster] = &installation{name: cluster, previous: addonsv1.ClusterAddonStatus{Name: cluster}}
		}
		return installations[cluster]
	}
	for i := range addon.Status.Clusters {
		of(addon.Status.Clusters[i].Name).previous = addon.Status.Clusters[i]
	}
	for i := range objects.resourceSets {
		of(objects.resourceSets[i].Labels[clusterv1.ClusterNameLabel]).resourceSet = &objects.resourceSets[i]
	}
	for i := range objects.secrets {
		of(objects.secrets[i].Labels[clusterv1.ClusterNameLabel]).secret = &objects.secrets[i]
	}
	controlPlanes := map[string]*controlplanev1.CAPTControlPlane{}
	for i := range objects.controlPlanes {
		controlPlanes[objects.controlPlanes[i].Name] = &objects.controlPlanes[i]
	}
	for i := range objects.clusters {
		cluster := &objects.clusters[i]
		selected := addon.DeletionTimestamp.IsZero() && cluster.DeletionTimestamp.IsZero() && selector.Matches(labels.Set(cluster.Labels))
		if !selected && installations[cluster.Name] == nil {
			continue
		}
		in := of(cluster.Name)
		in.cluster, in.selected = cluster, selected
		if ref := cluster.Spec.ControlPlaneRef; controlplanev1.IsCAPTControlPlane(ref) {
			in.controlPlane, in.ofCAPT = controlPlanes[ref.Name], true
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(installations)) {
		in := installations[cluster]
		in.current = in.previous
		s.installations = append(s.installations, in)
	}
	return s, nil
}

// renderCluster returns the fields of the cluster that manifests can refer to.
func (in *installation) renderCluster() render.Cluster {
	return render.ClusterOf(in.cluster, in.controlPlane)
}

// checkWorkspace returns a fault until the name of the control plane's workspace
// is known, which manifests can refer to.
func (in *installation) checkWorkspace() error {
	if in.ofCAPT && (in.controlPlane == nil || in.controlPlane.Status.WorkspaceRef == nil) {
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "Control plane has no workspace yet")
	}
	return nil
}

// requestedHash returns the hash of the content that Cluster API has to apply.
func (in *installation) requestedHash() string {
	if in.secret == nil || in.resourceSet == nil {
		return ""
	}
	return in.secret.Annotations[addonsv1.HashAnnotation]
}

// key returns the key of the Cluster.
func (in *installation) key(s *scope) client.ObjectKey {
	return client.ObjectKey{Namespace: s.addon.Namespace, Name: in.name}
}

// initialized reports whether the control plane accepts requests. Of a cluster that names none,
// nothing but a connection shows that.
func (in *installation) initialized() bool {
	return !in.cluster.Spec.ControlPlaneRef.IsDefined() || ptr.Deref(in.cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// paused reports whether the Cluster is paused, or was moved to another management cluster.
func (in *installation) paused() bool {
	return ptr.Deref(in.cluster.Spec.Paused, false) || reconcile.IsMoved(in.cluster)
}

// connected reports whether Cluster API is connected to the cluster.
func (in *installation) connected() bool {
	return conditions.IsTrue(in.cluster, clusterv1.ClusterRemoteConnectionProbeCondition)
}

// wasReady reports whether the last reconciliation found the add-on ready.
func (in *installation) wasReady() bool { return ptr.Deref(in.previous.Ready, false) }

func (in *installation) ready() bool { return ptr.Deref(in.current.Ready, false) }

// maxMessage is the size of a message in the status of a cluster.
const maxMessage = 1024

// report sets the status of the cluster.
func (in *installation) report(s *scope, ready bool, reason, text string) {
	if in.previous.Reason != reason || in.previous.Since.IsZero() {
		in.current.Since = metav1.NewTime(s.now.Truncate(time.Second))
	}
	in.current.Ready, in.current.Reason, in.current.Message = &ready, reason, message.Truncate(text, maxMessage)
	in.current.WaitingSince = in.waitingSince(s.now)
}

// waitingSince returns since when the add-on should be ready in the cluster and is not. A change
// of the reason does not start the time again: the reasons of a cluster whose connection comes
// and goes alternate. The time of a new cluster starts again when its control plane exists, and
// with the first apply. A cluster whose turn in the rollout has not come waits for others that
// count.
func (in *installation) waitingSince(now time.Time) metav1.Time {
	switch {
	case !in.selected, in.ready(), in.current.Reason == addonsv1.ClusterPausedReason, in.current.Reason == addonsv1.WaitingForRolloutReason:
		return metav1.Time{}
	case in.previous.WaitingSince.IsZero():
		return in.current.Since
	case in.previous.AppliedHash == "" && in.current.AppliedHash != "":
		return metav1.NewTime(now.Truncate(time.Second))
	case in.current.AppliedHash == "":
		return later(in.previous.WaitingSince, in.initializedAt())
	default:
		return in.previous.WaitingSince
	}
}

// initializedAt returns when the control plane of the cluster was initialized, or zero.
func (in *installation) initializedAt() metav1.Time {
	if in.cluster == nil {
		return metav1.Time{}
	}
	initialized := meta.FindStatusCondition(in.cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	if initialized == nil || initialized.Status != metav1.ConditionTrue {
		return metav1.Time{}
	}
	return initialized.LastTransitionTime
}

func later(a, b metav1.Time) metav1.Time {
	if b.After(a.Time) {
		return b
	}
	return a
}

// reportFault sets the status of the cluster from a fault. It returns other
// errors.
func (in *installation) reportFault(s *scope, err error) error {
	if waiting, found := fault.AsWaiting(err); found {
		if waiting.RetryAfter > 0 {
			s.requeue(waiting.RetryAfter)
		}
		in.report(s, false, waiting.Reason, waiting.Message())
		return nil
	}
	if stalled, found := fault.AsStalled(err); found {
		in.report(s, false, stalled.Reason, stalled.Message())
		return nil
	}
	return err
}

// requeue requests another reconciliation after a time. The earliest request
// wins.
func (s *scope) requeue(after time.Duration) {
	after = max(after, time.Second)
	if s.requeueAfter == 0 || after < s.requeueAfter {
		s.requeueAfter = after
	}
}

// wait returns the fault of an add-on that waits for its clusters.
func (s *scope) wait(reason, text string) error {
	if s.requeueAfter > 0 {
		return fault.WaitFor(s.requeueAfter, reason, "%s", text)
	}
	return fault.Wait(reason, "%s", text)
}
