package web

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/object"
)

// setSession sets what the user sees. Before the first lists are complete, the kinds are
// expected.
func (o *objects) setSession(session Session, scopes []*scope) {
	o.mu.Lock()
	defer o.mu.Unlock()
	session.Denied = o.session.Denied
	o.session = session
	o.kinds = nil
	for _, s := range scopes {
		o.kinds = append(o.kinds, s.kind)
		_, started := o.sources[s.kind]
		_, failed := o.problems[s.kind]
		if !started && !failed && !o.synced {
			o.loading[s.kind] = struct{}{}
		}
	}
	o.kindsChanged()
}

// setLoaded records that a kind can be listed, and that its objects are stored.
func (o *objects) setLoaded(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, failed := o.problems[kind]
	if _, loading := o.loading[kind]; failed || loading {
		delete(o.problems, kind)
		delete(o.loading, kind)
		o.kindsChanged()
	}
}

// setProblem records why a kind cannot be listed. The other kinds do not wait for it.
func (o *objects) setProblem(problem Denied) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, found := o.problems[problem.Kind]; found && before == problem {
		return
	}
	o.problems[problem.Kind] = problem
	delete(o.loading, problem.Kind)
	o.kindsChanged()
}

func (o *objects) hasProblems() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.problems) > 0
}

// kindsChanged informs the streams about the state of the kinds. What is shown of
// Clusters depends on it.
func (o *objects) kindsChanged() {
	synced, denied := o.synced, o.session.Denied
	o.session.Denied, o.session.Loading = nil, nil
	for _, kind := range o.kinds {
		if problem, found := o.problems[kind]; found {
			o.session.Denied = append(o.session.Denied, problem)
		}
	}
	if len(o.loading) == 0 && len(o.kinds) > 0 {
		o.synced = true
	} else {
		o.session.Loading = &Loading{Done: len(o.kinds) - len(o.loading), Total: len(o.kinds)}
	}
	o.mark(topic{kind: topicSession})
	if o.synced && (!synced || !slices.Equal(denied, o.session.Denied)) {
		for _, m := range o.clusters {
			m.row = nil
		}
		o.mark(topic{kind: topicReset})
	}
}

// drop removes the objects of a kind, and ignores what its watch still sends.
func (o *objects) drop(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sources, kind)
	delete(o.problems, kind)
	if kind == object.Kind(&corev1.Event{}) {
		o.events = eventLog{}
	}
	for _, m := range o.clusters {
		if m.cluster != nil && kind == clusterv1.ClusterKind {
			o.remove(m.cluster)
		}
		o.removeKind(m.items, kind)
	}
	for _, items := range o.unowned {
		o.removeKind(items, kind)
	}
	for _, addon := range o.addons {
		if object.Kind(addon) == kind {
			o.remove(addon)
		}
	}
}

// removeKind removes the objects of a kind. Go allows to delete from a map in a loop.
func (o *objects) removeKind(items map[types.UID]client.Object, kind string) {
	for _, item := range items {
		if object.Kind(item) == kind {
			o.remove(item)
		}
	}
}
