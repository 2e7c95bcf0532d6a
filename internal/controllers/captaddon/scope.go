package captaddon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one reconcile of an add-on.
type scope struct {
	addon *addonsv1.CAPTAddon
	// all are the add-ons of the namespace.
	all       []addonsv1.CAPTAddon
	standings []*standing
	now       time.Time
	// again is how soon to look again although no watch fires; zero is never.
	again time.Duration
}

// standing is how far an add-on is in one cluster.
type standing struct {
	name string
	// cluster is nil when it is gone.
	cluster *clusterv1.Cluster
	// controlPlane is nil when it is gone or another provider's.
	controlPlane *controlplanev1.CAPTControlPlane
	// matched reports whether the add-on selects the cluster.
	matched bool
	// set and secret are what Cluster API applies, or nil. The secret is without
	// its data.
	set    *clusteraddonsv1.ClusterResourceSet
	secret *corev1.Secret
	// rendered is what the cluster is to get; its data may be missing. fault
	// tells why there is none.
	rendered *rendering
	fault    error

	was, is addonsv1.ClusterAddonStatus
	// gone tells that the cluster has nothing of the add-on any more.
	gone bool
}

// scope finds the clusters that the add-on concerns: those that it selects, and
// those that have something of it.
func (r *Reconciler) scope(ctx context.Context, addon *addonsv1.CAPTAddon, _ *clusterv1.Cluster) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	if err != nil {
		return nil, fault.Stall(addonsv1.InvalidManifestReason, "clusterSelector cannot be read: %w", err)
	}
	s := &scope{addon: addon, now: r.Now()}
	within := client.InNamespace(addon.Namespace)
	var (
		list     addonsv1.CAPTAddonList
		clusters clusterv1.ClusterList
		planes   controlplanev1.CAPTControlPlaneList
		sets     clusteraddonsv1.ClusterResourceSetList
		secrets  corev1.SecretList
	)
	ours := client.MatchingLabels{addonsv1.AddonLabel: addon.Name}
	for _, read := range []func() error{
		func() error { return r.Client.List(ctx, &list, within) },
		func() error { return r.Client.List(ctx, &clusters, within) },
		func() error { return r.Client.List(ctx, &planes, within) },
		func() error { return r.Client.List(ctx, &sets, within, ours) },
		func() error { return r.Client.List(ctx, &secrets, within, ours) },
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("reading what the add-on concerns: %w", err)
		}
	}
	// A cache lists in any order, and messages name the first.
	slices.SortFunc(list.Items, func(a, b addonsv1.CAPTAddon) int { return strings.Compare(a.Name, b.Name) })
	s.all = list.Items

	standings := map[string]*standing{}
	at := func(name string) *standing {
		if standings[name] == nil {
			standings[name] = &standing{name: name, was: addonsv1.ClusterAddonStatus{Name: name}}
		}
		return standings[name]
	}
	for i := range addon.Status.Clusters {
		at(addon.Status.Clusters[i].Name).was = addon.Status.Clusters[i]
	}
	for i := range sets.Items {
		at(sets.Items[i].Labels[clusterv1.ClusterNameLabel]).set = &sets.Items[i]
	}
	for i := range secrets.Items {
		at(secrets.Items[i].Labels[clusterv1.ClusterNameLabel]).secret = &secrets.Items[i]
	}
	named := map[string]*controlplanev1.CAPTControlPlane{}
	for i := range planes.Items {
		named[planes.Items[i].Name] = &planes.Items[i]
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		wanted := addon.DeletionTimestamp.IsZero() && cluster.DeletionTimestamp.IsZero() && selector.Matches(labels.Set(cluster.Labels))
		if !wanted && standings[cluster.Name] == nil {
			continue
		}
		st := at(cluster.Name)
		st.cluster, st.matched = cluster, wanted
		if ref := cluster.Spec.ControlPlaneRef; ref.Kind == "CAPTControlPlane" {
			st.controlPlane = named[ref.Name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(standings)) {
		st := standings[name]
		st.is = st.was
		s.standings = append(s.standings, st)
	}
	return s, nil
}

// facts are what manifests can say about the cluster.
func (st *standing) facts(namespace string) render.Cluster {
	facts := render.Cluster{Name: st.name, Namespace: namespace, KubernetesVersion: st.cluster.Spec.Topology.Version}
	if st.controlPlane != nil && st.controlPlane.Status.Version != "" {
		facts.KubernetesVersion = st.controlPlane.Status.Version
	}
	return facts
}

// asked is the hash of what Cluster API was asked to apply.
func (st *standing) asked() string {
	if st.secret == nil || st.set == nil {
		return ""
	}
	return st.secret.Annotations[addonsv1.HashAnnotation]
}

// key is the Cluster's.
func (st *standing) key(s *scope) client.ObjectKey {
	return client.ObjectKey{Namespace: s.addon.Namespace, Name: st.name}
}

// report sets where the cluster stands.
func (st *standing) report(s *scope, ready bool, reason, message string) {
	if st.was.Reason != reason || st.was.Since.IsZero() {
		st.is.Since = metav1.NewTime(s.now.Truncate(time.Second))
	}
	st.is.Ready, st.is.Reason, st.is.Message = &ready, reason, truncate(message)
}

func (st *standing) ready() bool { return st.is.Ready != nil && *st.is.Ready }

// lookAgain requeues the add-on after a while.
func (s *scope) lookAgain(after time.Duration) {
	after = max(after, time.Second)
	if s.again == 0 || after < s.again {
		s.again = after
	}
}

func revisit(s *scope) time.Duration { return s.again }

// truncate keeps a message within what the API takes.
func truncate(message string) string {
	const most = 1024
	if len(message) <= most {
		return message
	}
	cut := most
	for cut > 0 && message[cut]&0xC0 == 0x80 {
		cut--
	}
	return message[:cut] + "…"
}
