package captmachine

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// interrupted is a connection to a cluster that can be interrupted.
type interrupted struct {
	clustercache.ClusterCache

	reader client.Reader
	err    error
}

func (i *interrupted) Watch(context.Context, client.ObjectKey, clustercache.Watcher) error {
	return i.err
}

func (i *interrupted) GetReader(context.Context, client.ObjectKey) (client.Reader, error) {
	return i.reader, i.err
}

func TestNode_interruptionDoesNotRestartTheTimeOfAProblem(t *testing.T) {
	g := NewWithT(t)
	broken := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "test:///1"}}
	cluster := &interrupted{reader: fake.NewClientBuilder().WithObjects(broken).Build()}
	r := &Reconciler{nodes: nodes.Source{Clusters: cluster}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newScope(infrav1.CAPTMachineSpec{ProviderID: "test:///1"})
	s.cluster, s.now = &clusterv1.Cluster{}, start
	want := &infrav1.NodeProblem{Reason: infrav1.NodeNotReadyReason, Since: metav1.NewTime(start)}
	observe := func(reason string) {
		s.now = s.now.Add(10 * time.Minute)
		waiting, ok := fault.AsWaiting(r.node(t.Context(), s))
		g.Expect(ok).To(BeTrue())
		g.Expect(waiting.Reason).To(Equal(reason))
		g.Expect(s.machine.Status.NodeProblem).To(Equal(want))
	}
	s.now = s.now.Add(-10 * time.Minute)
	observe(infrav1.NodeNotReadyReason)
	cluster.err = clustercache.ErrClusterNotConnected
	observe(infrav1.WorkloadClusterUnreachableReason)
	cluster.err = nil
	observe(infrav1.NodeNotReadyReason)
}
