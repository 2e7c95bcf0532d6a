package web

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
)

// key is the namespace and name of an object.
type key = types.NamespacedName

// topic is something that a stream can be informed about.
type topic struct {
	// kind is one of the constants below.
	kind string
	key  key
}

const (
	topicCluster   = "cluster"
	topicWorkspace = "workspace"
	topicAddon     = "addon"
	topicEvent     = "event"
	topicSession   = "session"
	// topicReset means that everything may have changed.
	topicReset = "reset"
)

// objects are the objects that a user may list, by the Cluster that they belong to.
// It informs streams about changes. The objects are never modified.
type objects struct {
	mu sync.Mutex
	// sources are the watches of the kinds: what arrives from earlier ones is ignored.
	sources map[string]*source
	// kinds are all kinds, and loading those whose first lists are not complete.
	kinds   []string
	loading map[string]struct{}
	// problems are why kinds cannot be listed.
	problems map[string]Denied
	session  Session
	// synced is set when the first lists of all kinds that can be listed are stored.
	synced   bool
	clusters map[key]*member
	// unowned are the objects without a Cluster, by namespace.
	unowned    map[string]map[types.UID]client.Object
	workspaces map[key]*infrav1.WorkspaceTemplateApply
	addons     map[key]*addonsv1.CAPTAddon
	events     eventLog
	streams    map[*subscription]struct{}
}

// member is a Cluster with its objects. The Cluster is nil if it is unknown.
type member struct {
	cluster *clusterv1.Cluster
	items   map[types.UID]client.Object
	// row is nil if it has to be computed again.
	row *Row
}

func newObjects() *objects {
	o := &objects{streams: map[*subscription]struct{}{}}
	o.clear()
	return o
}

func (o *objects) clear() {
	o.synced, o.session = false, Session{}
	o.sources, o.loading, o.problems = map[string]*source{}, map[string]struct{}{}, map[string]Denied{}
	o.clusters, o.unowned = map[key]*member{}, map[string]map[types.UID]client.Object{}
	o.workspaces, o.addons = map[key]*infrav1.WorkspaceTemplateApply{}, map[key]*addonsv1.CAPTAddon{}
	o.events = eventLog{}
}

// reset removes all objects.
func (o *objects) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
}

// source is a watch of a kind. It is not empty, so that each has its own address.
type source struct{ kind string }

// handler returns what stores the objects of a kind until it is dropped or replaced.
func (o *objects) handler(kind string) toolscache.ResourceEventHandler {
	from := &source{kind}
	o.mu.Lock()
	o.sources[kind] = from
	o.mu.Unlock()
	store := func(obj any, store func(client.Object)) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if obj, ok := obj.(client.Object); ok && o.sources[kind] == from {
			store(obj)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { store(obj, o.set) },
		UpdateFunc: func(before, obj any) {
			store(before, func(before client.Object) {
				if after, ok := obj.(client.Object); ok && hasMoved(before, after) {
					o.remove(before)
				}
			})
			store(obj, o.set)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			store(obj, o.remove)
		},
	}
}

// hasMoved reports whether an object belongs to another Cluster than before.
func hasMoved(before, after client.Object) bool {
	from, owned := describe.ClusterOf(before)
	to, _ := describe.ClusterOf(after)
	return owned && from != to
}

// setLost sets why the management cluster cannot be read.
func (o *objects) setLost(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session.Lost != why {
		o.session.Lost = why
		o.mark(topic{kind: topicSession})
	}
}

func keyOf(obj client.Object) key { return client.ObjectKeyFromObject(obj) }

// set stores an object.
func (o *objects) set(obj client.Object) {
	switch obj := obj.(type) {
	case *corev1.Event:
		if event, ok := newEvent(obj); ok && o.events.add(event) {
			o.mark(topic{topicEvent, key{Namespace: obj.Namespace}})
		}
		return
	case *clusterv1.Cluster:
		m := o.member(keyOf(obj))
		m.cluster = obj
		o.changed(keyOf(obj))
		return
	case *addonsv1.CAPTAddon:
		o.addonChanged(o.addons[keyOf(obj)], obj)
		o.addons[keyOf(obj)] = obj
		return
	case *infrav1.WorkspaceTemplateApply:
		o.workspaces[keyOf(obj)] = obj
		o.mark(topic{topicWorkspace, keyOf(obj)})
	}
	cluster, owned := describe.ClusterOf(obj)
	if !owned {
		if o.unowned[obj.GetNamespace()] == nil {
			o.unowned[obj.GetNamespace()] = map[types.UID]client.Object{}
		}
		o.unowned[obj.GetNamespace()][obj.GetUID()] = obj
		return
	}
	delete(o.unowned[obj.GetNamespace()], obj.GetUID())
	o.member(cluster).items[obj.GetUID()] = obj
	o.changed(cluster)
}

// remove removes an object.
func (o *objects) remove(obj client.Object) {
	switch obj := obj.(type) {
	case *corev1.Event:
		// The feed keeps events that Kubernetes has deleted.
		return
	case *clusterv1.Cluster:
		o.member(keyOf(obj)).cluster = nil
		o.changed(keyOf(obj))
		return
	case *addonsv1.CAPTAddon:
		delete(o.addons, keyOf(obj))
		o.addonChanged(obj, nil)
		return
	case *infrav1.WorkspaceTemplateApply:
		delete(o.workspaces, keyOf(obj))
		o.mark(topic{topicWorkspace, keyOf(obj)})
	}
	delete(o.unowned[obj.GetNamespace()], obj.GetUID())
	if cluster, owned := describe.ClusterOf(obj); owned {
		m := o.member(cluster)
		delete(m.items, obj.GetUID())
		o.changed(cluster)
	}
}

func (o *objects) member(cluster key) *member {
	m := o.clusters[cluster]
	if m == nil {
		m = &member{items: map[types.UID]client.Object{}}
		o.clusters[cluster] = m
	}
	return m
}

// changed records that something of a Cluster changed.
func (o *objects) changed(cluster key) {
	m := o.clusters[cluster]
	if m == nil {
		return
	}
	m.row = nil
	if m.cluster == nil && len(m.items) == 0 {
		delete(o.clusters, cluster)
	}
	o.mark(topic{topicCluster, cluster})
}

// addonChanged records a change of an add-on, and of the Clusters in which its
// status changed.
func (o *objects) addonChanged(before, after *addonsv1.CAPTAddon) {
	statuses := func(addon *addonsv1.CAPTAddon) map[string]addonsv1.ClusterAddonStatus {
		all := map[string]addonsv1.ClusterAddonStatus{}
		if addon != nil {
			for _, status := range addon.Status.Clusters {
				all[status.Name] = status
			}
		}
		return all
	}
	addon := cmp.Or(after, before)
	old, current := statuses(before), statuses(after)
	for name := range old {
		if _, found := current[name]; !found {
			current[name] = addonsv1.ClusterAddonStatus{}
		}
	}
	for name, status := range current {
		previous, known := old[name]
		if !known || previous.Reason != status.Reason || previous.Message != status.Message || previous.Since != status.Since {
			o.changed(key{Namespace: addon.Namespace, Name: name})
		}
	}
	o.mark(topic{topicAddon, keyOf(addon)})
}

// describe returns a Cluster with the objects that its tree is built from, or nil if
// the Cluster is unknown.
func (o *objects) describe(cluster key) *describe.Objects {
	m := o.clusters[cluster]
	if m == nil || m.cluster == nil {
		return nil
	}
	d := &describe.Objects{Cluster: m.cluster, Unread: slices.Collect(maps.Keys(o.problems))}
	for _, items := range []map[types.UID]client.Object{m.items, o.unowned[cluster.Namespace]} {
		for _, item := range items {
			d.Items = append(d.Items, item)
		}
	}
	for addon, obj := range o.addons {
		if addon.Namespace == cluster.Namespace {
			d.Addons = append(d.Addons, *obj)
		}
	}
	return d
}

// row returns the row of a Cluster, or nil if the Cluster is unknown.
func (o *objects) row(cluster key) *Row {
	m := o.clusters[cluster]
	if m == nil || m.cluster == nil {
		return nil
	}
	if m.row == nil {
		m.row = newRow(o.describe(cluster))
	}
	return m.row
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[T any](all map[key]T) []key {
	return slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
