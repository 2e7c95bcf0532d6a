package reconcile

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func cluster(paused bool) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"},
		Spec:       clusterv1.ClusterSpec{Paused: &paused},
	}
}

func ownedBy(apiVersion, kind, name string) func(*thing) {
	return func(t *thing) {
		t.OwnerReferences = append(t.OwnerReferences, metav1.OwnerReference{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: "2",
		})
	}
}

func labelled(t *thing) { t.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"} }

func annotatedPaused(t *thing) { t.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }

// movedAway is an object that clusterctl deletes after a move. clusterctl replaces all annotations.
func movedAway(t *thing) {
	t.Annotations = map[string]string{deleteForMoveAnnotation: ""}
}

func TestOwnerCluster(t *testing.T) {
	v2 := clusterv1.GroupVersion.String()
	tests := []struct {
		name   string
		obj    *thing
		exists bool
		found  bool
		waits  bool
	}{
		{name: "no owner and no label", obj: newThing(), exists: true},
		{name: "by owner reference", obj: newThing(ownedBy(v2, "Cluster", "c")), exists: true, found: true},
		{
			name: "by owner reference of an older version", exists: true, found: true,
			obj: newThing(ownedBy("cluster.x-k8s.io/v1beta1", "Cluster", "c")),
		},
		{name: "by label", obj: newThing(labelled), exists: true, found: true},
		{
			name: "the owner reference has precedence over the label", exists: true, waits: true,
			obj: newThing(labelled, ownedBy(v2, "Cluster", "another")),
		},
		{name: "a Cluster of another group", obj: newThing(ownedBy("example.com/v1", "Cluster", "c")), exists: true},
		{name: "another kind", obj: newThing(ownedBy(v2, "Machine", "c")), exists: true},
		{name: "missing", obj: newThing(labelled), waits: true},
		{name: "missing while deleting", obj: newThing(labelled, deleting)},
		{name: "existing while deleting", obj: newThing(labelled, deleting), exists: true, found: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			server := newAPIServer(t)
			if tt.exists {
				g.Expect(server.Create(t.Context(), cluster(false))).To(Succeed())
			}

			got, err := OwnerCluster(t.Context(), server, tt.obj)

			g.Expect(got != nil).To(Equal(tt.found))
			wait, isWaiting := fault.AsWaiting(err)
			g.Expect(isWaiting).To(Equal(tt.waits))
			if tt.waits {
				g.Expect(wait.Reason).To(Equal(WaitingForClusterReason))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestOwnerCluster_returnsOtherErrors(t *testing.T) {
	g := NewWithT(t)
	refused := errors.New("connection refused")
	c := interceptor.NewClient(newAPIServer(t).Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
	})

	_, err := OwnerCluster(t.Context(), c, newThing(labelled, deleting))

	g.Expect(err).To(MatchError(refused))
}

func TestPause(t *testing.T) {
	const byCluster, byAnnotation = "Cluster spec.paused is set to true", "Thing has the cluster.x-k8s.io/paused annotation"
	tests := []struct {
		name    string
		obj     *thing
		cluster *clusterv1.Cluster
		paused  bool
		want    state
	}{
		{name: "no Cluster", obj: newThing(), want: state{"False", "NotPaused", ""}},
		{name: "a Cluster that is not paused", obj: newThing(), cluster: cluster(false), want: state{"False", "NotPaused", ""}},
		{name: "a Cluster without spec.paused", obj: newThing(), cluster: &clusterv1.Cluster{}, want: state{"False", "NotPaused", ""}},
		{
			name: "a paused Cluster", obj: newThing(), cluster: cluster(true),
			paused: true, want: state{"True", "Paused", byCluster},
		},
		{
			name: "the annotation", obj: newThing(annotatedPaused),
			paused: true, want: state{"True", "Paused", byAnnotation},
		},
		{
			name: "after a move", obj: newThing(movedAway),
			paused: true, want: state{"True", "Paused", "clusterctl has moved Thing to another management cluster and deletes it here"},
		},
		{
			name: "both", obj: newThing(annotatedPaused), cluster: cluster(true),
			paused: true, want: state{"True", "Paused", byCluster + ", " + byAnnotation},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			paused, wasPaused := pause(tt.obj, "Thing", tt.cluster)
			g.Expect(paused).To(Equal(tt.paused))
			g.Expect(wasPaused).To(BeFalse())
			g.Expect(stateOf(tt.obj, clusterv1.PausedCondition)).To(Equal(tt.want))

			_, wasPaused = pause(tt.obj, "Thing", tt.cluster)
			g.Expect(wasPaused).To(Equal(tt.paused))
		})
	}
}
