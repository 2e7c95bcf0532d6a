package captmachineset

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

const (
	// byManager is the watch filter of sets that the manager reconciles, byHand that
	// of sets that a test reconciles itself.
	byManager = "manager"
	byHand    = "hand"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithManager(func(mgr ctrl.Manager) error {
		return (&Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-machineset"),
			Clusters: &workloads, WatchFilter: byManager, Now: time.Now,
		}).SetupWithManager(context.Background(), mgr, controller.Options{MaxConcurrentReconciles: 4})
	})))
}

// clusters are workload clusters with objects in memory, by the namespace of their
// Cluster. One that a test has not set has no nodes.
type clusters struct{ byNamespace sync.Map }

var workloads clusters

func (c *clusters) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	if found, ok := c.byNamespace.Load(cluster.Namespace); ok {
		if err, failed := found.(error); failed {
			return nil, err
		}
		return found.(client.Client), nil
	}
	return fake.NewClientBuilder().Build(), nil
}

func tester(t *testing.T) *objecttest.Tester { return objecttest.New(t, env.Client) }

func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	tester(t).Create(obj)
	return obj
}

// update changes an object, and repeats that after a conflict.
func update[T client.Object](t *testing.T, obj T, change func(T)) {
	t.Helper()
	tester(t).Update(obj, func() { change(obj) })
}

// newCluster creates a namespace with a Cluster named production.
func newCluster(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "production"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "production",
		}},
	}
	return create(t, cluster)
}

// setIn returns a set that the manager reconciles.
func setIn(namespace string, replicas int32, change ...func(*infrav1.CAPTMachineSet)) *infrav1.CAPTMachineSet {
	set := &infrav1.CAPTMachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "workers", Labels: map[string]string{clusterv1.WatchLabel: byManager}},
		Spec: infrav1.CAPTMachineSetSpec{
			ClusterName: "production", Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
			Template: infrav1.MachineTemplate{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "workers"}},
				Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}, InstanceType: "m7g.large"},
			},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// newSet creates a set in a namespace of its own.
func newSet(t *testing.T, replicas int32, change ...func(*infrav1.CAPTMachineSet)) *infrav1.CAPTMachineSet {
	t.Helper()
	return create(t, setIn(newCluster(t).Namespace, replicas, change...))
}

// list returns the machines of a namespace that are not being deleted.
func list(t *testing.T, namespace string) []*infrav1.CAPTMachine {
	t.Helper()
	var all infrav1.CAPTMachineList
	NewWithT(t).Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	var alive []*infrav1.CAPTMachine
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp.IsZero() {
			alive = append(alive, &all.Items[i])
		}
	}
	return alive
}

// waitForMachines waits until there are n machines.
func waitForMachines(t *testing.T, namespace string, n int) []*infrav1.CAPTMachine {
	t.Helper()
	var found []*infrav1.CAPTMachine
	NewWithT(t).Eventually(func() int {
		found = list(t, namespace)
		return len(found)
	}).Should(Equal(n), "%d machines should exist", n)
	return found
}

// settle waits until the manager has handled earlier changes: it handles a new set after
// them.
func settle(t *testing.T) {
	t.Helper()
	waitForMachines(t, newSet(t, 1).Namespace, 1)
}

// setReady sets the Ready condition of a machine, as its controller does.
func setReady(t *testing.T, m *infrav1.CAPTMachine, status metav1.ConditionStatus) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: "Test"})
		g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
	}).Should(Succeed())
}
