package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/message"
)

// rowsView shows a row for each object of a kind.
type rowsView[T any] struct {
	kind string
	keys func(*objects) []key
	// row returns nil if the object does not exist.
	row func(*objects, key) *T
	// sent are the hashes of the rows that the client has.
	sent map[key]uint64
	seed maphash.Seed
}

func newRowsView[T any](kind string, keys func(*objects) []key, row func(*objects, key) *T) *rowsView[T] {
	return &rowsView[T]{kind: kind, keys: keys, row: row, sent: map[key]uint64{}, seed: maphash.MakeSeed()}
}

// newFleetView shows a row for each Cluster.
func newFleetView() view {
	return newRowsView(topicCluster, func(o *objects) []key { return sortedKeys(o.clusters) }, (*objects).row)
}

// newWorkspacesView shows a row for each workspace, with and without a Cluster.
func newWorkspacesView() view {
	return newRowsView(topicWorkspace, func(o *objects) []key { return sortedKeys(o.workspaces) }, func(o *objects, id key) *WorkspaceRow {
		if apply := o.workspaces[id]; apply != nil {
			return newWorkspaceRow(apply)
		}
		return nil
	})
}

func (v *rowsView[T]) wants(t topic) bool { return t.kind == v.kind }

func (v *rowsView[T]) events(o *objects, changed map[topic]struct{}, all bool) []event {
	keys := changedKeys(changed, v.kind)
	if all {
		clear(v.sent)
		keys = v.keys(o)
	}
	var events []event
	var rows Rows[T]
	for _, id := range keys {
		row := v.row(o, id)
		if row == nil {
			if _, known := v.sent[id]; known {
				delete(v.sent, id)
				rows.Removed = append(rows.Removed, id.Namespace+"/"+id.Name)
			}
			continue
		}
		content, err := json.Marshal(row)
		if err != nil {
			continue
		}
		if hash := maphash.Bytes(v.seed, content); v.sent[id] != hash {
			v.sent[id] = hash
			rows.Rows = append(rows.Rows, *row)
		}
		if len(rows.Rows) == batch {
			events = append(events, event{"rows", rows})
			rows = Rows[T]{}
		}
	}
	if len(rows.Rows)+len(rows.Removed) > 0 {
		events = append(events, event{"rows", rows})
	}
	return events
}

// changedKeys returns the keys of the changed topics of a kind, in order.
func changedKeys(changed map[topic]struct{}, kind string) []key {
	keys := map[key]struct{}{}
	for t := range changed {
		if t.kind == kind {
			keys[t.key] = struct{}{}
		}
	}
	return sortedKeys(keys)
}

// lastSent remembers what a stream sent last.
type lastSent struct{ content []byte }

// changed returns the event unless its content was sent before.
func (l *lastSent) changed(name string, data any, all bool) []event {
	content, err := json.Marshal(data)
	if err != nil || !all && bytes.Equal(content, l.content) {
		return nil
	}
	l.content = content
	return []event{{name, json.RawMessage(content)}}
}

// clusterView shows one Cluster with its tree, conditions, timeline, nodes and
// events.
type clusterView struct {
	id key
	// nodes returns the nodes of the workload cluster, as far as they are known, and
	// nodesChanged is signalled when they change.
	nodes        func(*describe.Objects) *describe.Nodes
	nodesChanged <-chan struct{}
	last         lastSent
}

func newClusterView(ctx context.Context, user *identity, id key) *clusterView {
	v := &clusterView{id: id}
	v.nodes, v.nodesChanged = describe.WatchNodes(ctx, user.workloads, user.connector, id)
	return v
}

// watchNodes marks the Cluster as changed when its nodes change.
func (v *clusterView) watchNodes(ctx context.Context, changes *subscription) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.nodesChanged:
			changes.mark(topic{topicCluster, v.id})
		}
	}
}

func (v *clusterView) wants(t topic) bool {
	return t.kind == topicCluster && t.key == v.id || t.kind == topicEvent && t.key.Namespace == v.id.Namespace
}

func (v *clusterView) events(o *objects, _ map[topic]struct{}, all bool) []event {
	objects := o.describe(v.id)
	if objects == nil {
		return v.last.changed("gone", nil, all)
	}
	row := *o.row(v.id)
	objects.Nodes = v.nodes(objects)
	events := o.clusterEvents(objects)
	content := Cluster{
		Row: row, Tree: describe.Build(objects, false), Conditions: conditionsOf(describe.Build(objects, true), []Condition{}),
		Timeline: newTimeline(objects, events), Events: events[:min(len(events), maxClusterEvents)],
	}
	if endpoint := objects.Cluster.Spec.ControlPlaneEndpoint; endpoint.IsValid() {
		content.Endpoint = endpoint.String()
	}
	return v.last.changed("cluster", content, all)
}

// conditionsOf returns the conditions in a tree that are not as they should be, and the
// status of objects that failed or wait for a user.
func conditionsOf(n *describe.Node, found []Condition) []Condition {
	if n.Kind != "Run" && (n.State == describe.StateFailed || n.State == describe.StateAttention) {
		found = append(found, Condition{
			Object: n.Kind + "/" + n.Name, Type: clusterv1.ReadyCondition, State: n.State, Reason: n.Reason, Message: n.Message, Since: n.Since,
		})
	}
	for _, child := range n.Children {
		if child.Kind == "Condition" && child.State != describe.StateReady {
			found = append(found, Condition{
				Object: n.Kind + "/" + n.Name, Type: child.Name, State: child.State, Reason: child.Reason, Message: child.Message, Since: child.Since,
			})
			continue
		}
		found = conditionsOf(child, found)
	}
	return found
}

// maxClusterEvents limits the events in the view of a Cluster.
const maxClusterEvents = 20

// clusterEvents returns the events of a Cluster's objects, the newest first.
func (o *objects) clusterEvents(objects *describe.Objects) []Event {
	names := map[string]bool{clusterv1.ClusterKind + "/" + objects.Cluster.Name: true}
	for _, item := range objects.Items {
		if owner, owned := describe.ClusterOf(item); owned && owner == keyOf(objects.Cluster) {
			names[object.Kind(item)+"/"+item.GetName()] = true
		}
	}
	events := []Event{}
	for _, e := range slices.Backward(o.events.entries) {
		if e.Namespace == objects.Cluster.Namespace && names[e.Kind+"/"+e.Name] {
			events = append(events, e.Event)
		}
	}
	return events
}

// workspaceView shows one workspace.
type workspaceView struct {
	id   key
	last lastSent
}

func (v *workspaceView) wants(t topic) bool { return t.kind == topicWorkspace && t.key == v.id }

func (v *workspaceView) events(o *objects, _ map[topic]struct{}, all bool) []event {
	apply := o.workspaces[v.id]
	if apply == nil {
		return v.last.changed("gone", nil, all)
	}
	return v.last.changed("workspace", newWorkspace(apply), all)
}

// newWorkspace returns the view of a workspace. Its outputs are those of the status,
// which has no sensitive ones.
func newWorkspace(apply *infrav1.WorkspaceTemplateApply) Workspace {
	w := Workspace{
		Namespace: apply.Namespace, Name: apply.Name, Created: apply.CreationTimestamp, Deleting: !apply.DeletionTimestamp.IsZero(),
		Node: describe.WorkspaceNode(apply, false), Template: apply.Spec.TemplateRef.Name, Plan: apply.Status.Plan, Run: apply.Status.Run,
		History: apply.Status.History, Runs: apply.Status.Runs, Failure: apply.Status.Failure, Drift: apply.Status.Drift,
		State: apply.Status.State, Outputs: apply.Status.Outputs, OutputSecret: apply.Status.ConnectionSecretName,
		Conditions: conditionsOf(describe.WorkspaceNode(apply, true), []Condition{}),
	}
	if cluster, owned := describe.ClusterOf(apply); owned {
		w.Cluster = cluster.Name
	}
	if module := apply.Status.Module; module != nil {
		w.Source, w.Revision = module.Source, cmp.Or(module.Revision, module.Digest)
	}
	return w
}

// addonsView shows all add-ons, or one with its clusters.
type addonsView struct {
	only *key
	last lastSent
}

func (v *addonsView) wants(t topic) bool {
	return t.kind == topicAddon && (v.only == nil || t.key == *v.only)
}

func (v *addonsView) events(o *objects, changed map[topic]struct{}, all bool) []event {
	if v.only != nil {
		addon := o.addons[*v.only]
		if addon == nil {
			return v.last.changed("gone", nil, all)
		}
		return v.last.changed("addons", Addons{Addons: []Addon{newAddon(addon, true)}}, all)
	}
	keys := changedKeys(changed, topicAddon)
	if all {
		keys = sortedKeys(o.addons)
	}
	var addons Addons
	for _, id := range keys {
		if addon := o.addons[id]; addon != nil {
			addons.Addons = append(addons.Addons, newAddon(addon, false))
		} else {
			addons.Removed = append(addons.Removed, id.Namespace+"/"+id.Name)
		}
	}
	if len(addons.Addons)+len(addons.Removed) == 0 {
		return nil
	}
	return []event{{"addons", addons}}
}

// newAddon returns the view of an add-on.
func newAddon(addon *addonsv1.CAPTAddon, clusters bool) Addon {
	a := Addon{
		Namespace: addon.Namespace, Name: addon.Name, State: describe.StateReady, Version: versions.AddonVersion(addon),
		Ready: ptr.Deref(addon.Status.Ready, 0), Matched: ptr.Deref(addon.Status.Matched, 0),
	}
	if addon.Spec.Helm != nil {
		a.Chart = addon.Spec.Helm.Chart.Name
	}
	for _, status := range addon.Status.Clusters {
		c := AddonCluster{
			Name: status.Name, State: describe.StateFor(status.Reason), Reason: status.Reason,
			Message: message.Truncate(status.Message, 2*maxMessage), Since: status.Since, Attempts: status.Attempts,
		}
		if ptr.Deref(status.Ready, false) {
			c.State = describe.StateReady
		}
		if c.State == describe.StateFailed {
			a.Failed++
		}
		if c.State.Severity() > a.State.Severity() {
			a.State, a.Reason, a.Message = c.State, c.Reason, message.Truncate(c.Name+": "+c.Message, maxMessage)
		}
		if clusters {
			a.Clusters = append(a.Clusters, c)
		}
	}
	slices.SortStableFunc(a.Clusters, func(x, y AddonCluster) int {
		return cmp.Or(cmp.Compare(y.State.Severity(), x.State.Severity()), cmp.Compare(x.Name, y.Name))
	})
	return a
}

// eventsView shows the events of all objects.
type eventsView struct {
	// sent is the number of the last event that the client has.
	sent int64
}

func (v *eventsView) wants(t topic) bool { return t.kind == topicEvent }

func (v *eventsView) events(o *objects, _ map[topic]struct{}, all bool) []event {
	if all {
		v.sent = 0
	}
	added := []Event{}
	for _, e := range slices.Backward(o.events.entries) {
		if e.number > v.sent {
			added = append(added, e.Event)
		}
	}
	v.sent = o.events.number
	if len(added) == 0 {
		return nil
	}
	return []event{{"events", added}}
}
