package captmachineset

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

const (
	// byManager marks the sets that the manager of the tests keeps, byHand those
	// that a test reconciles itself.
	byManager = "manager"
	byHand    = "hand"
	// patience is how long anything may take on a busy machine.
	patience = 30 * time.Second
	often    = 50 * time.Millisecond
	// calm is how long nothing has to happen to count as rest: several times what
	// a look at an object takes.
	calm = 1500 * time.Millisecond
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithManager(func(mgr ctrl.Manager) error {
		return (&Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-machineset"),
			WatchFilter: byManager, Now: time.Now,
		}).SetupWithManager(context.Background(), mgr, controller.Options{MaxConcurrentReconciles: 4})
	})))
}

func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	NewWithT(t).Expect(env.Client.Create(t.Context(), obj)).To(Succeed())
	return obj
}

// newCluster makes a namespace with a Cluster of the name production.
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

// setIn is a set of a namespace, which the manager keeps.
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

// newSet makes a set in a namespace of its own.
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

// waitForMachines waits until there are as many machines as said.
func waitForMachines(t *testing.T, namespace string, n int) []*infrav1.CAPTMachine {
	t.Helper()
	var found []*infrav1.CAPTMachine
	NewWithT(t).Eventually(func() int {
		found = list(t, namespace)
		return len(found)
	}, patience, often).Should(Equal(n), "%d machines are to be there", n)
	return found
}

// setReady plays the machine's controller.
func setReady(t *testing.T, m *infrav1.CAPTMachine, status metav1.ConditionStatus) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: "Test"})
		g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
	}, patience, often).Should(Succeed())
}

// reread fetches an object again.
func reread(t *testing.T, obj client.Object) {
	t.Helper()
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}

// update changes an object, again if somebody else writes first.
func update[T client.Object](t *testing.T, obj T, change func(T)) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		change(obj)
		g.Expect(env.Client.Update(t.Context(), obj)).To(Succeed())
	}, patience, often).Should(Succeed())
}

// waitFor waits for a condition of the latest generation.
func waitFor(t *testing.T, set *infrav1.CAPTMachineSet, condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		found := meta.FindStatusCondition(set.Status.Conditions, condition)
		g.Expect(found).NotTo(BeNil())
		g.Expect(found.Status).To(Equal(status), "%s: %s", found.Reason, found.Message)
		g.Expect(found.Reason).To(Equal(reason), found.Message)
		g.Expect(found.ObservedGeneration).To(Equal(set.Generation))
		c = *found
	}, patience, often).Should(Succeed(), "%s is to be %s because of %s", condition, status, reason)
	return c
}

func waitGone(t *testing.T, obj client.Object) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, patience, often).Should(BeTrue(), "%s is to go", obj.GetName())
}
