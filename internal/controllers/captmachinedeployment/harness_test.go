package captmachinedeployment

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/captmachineset"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

const (
	// byManager is the watch filter of the manager of the tests, byRestarts that of
	// the managers of the randomized test.
	byManager  = "manager"
	byRestarts = "restarts"
	// broken is an instance type whose machines never become ready.
	broken = "broken.large"
)

// ahead is how far the clock of the controllers is ahead.
var ahead atomic.Int64

func clock() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }

// controllers adds both controllers to a manager.
func controllers(mgr ctrl.Manager, filter string) error {
	options := controller.Options{MaxConcurrentReconciles: 4}
	if err := workspace.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := (&captmachineset.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-machineset"),
		WatchFilter: filter, Now: clock,
	}).SetupWithManager(context.Background(), mgr, options); err != nil {
		return err
	}
	return (&Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-machinedeployment"),
		Workspaces:  &workspace.Keeper{Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
		WatchFilter: filter, Now: clock,
	}).SetupWithManager(context.Background(), mgr, options)
}

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithWebhooks(webhooks.Setup), testenv.WithManager(func(mgr ctrl.Manager) error {
		return controllers(mgr, byManager)
	})))
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
	return create(t, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "production"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "production",
		}},
	})
}

type changeOf = func(*infrav1.CAPTMachineDeployment)

func deploymentIn(namespace string, replicas int32, change ...changeOf) *infrav1.CAPTMachineDeployment {
	d := &infrav1.CAPTMachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "workers", Labels: map[string]string{clusterv1.WatchLabel: byManager}},
		Spec: infrav1.CAPTMachineDeploymentSpec{
			ClusterName: "production", Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
			Template: infrav1.MachineTemplate{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "workers"}},
				Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}, InstanceType: "m7g.large"},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

// newDeployment creates a deployment in a namespace of its own, where machines
// become ready unless they are broken.
func newDeployment(t *testing.T, replicas int32, change ...changeOf) *infrav1.CAPTMachineDeployment {
	t.Helper()
	d := create(t, deploymentIn(newCluster(t).Namespace, replicas, change...))
	simulateMachines(t, d.Namespace)
	return d
}

func instanceType(name string) changeOf {
	return func(d *infrav1.CAPTMachineDeployment) { d.Spec.Template.Spec.InstanceType = name }
}

func rolling(surge, unavailable int32) changeOf {
	return func(d *infrav1.CAPTMachineDeployment) {
		s, u := intstr.FromInt32(surge), intstr.FromInt32(unavailable)
		d.Spec.Strategy = &infrav1.MachineDeploymentStrategy{RollingUpdate: &infrav1.RollingUpdate{MaxSurge: &s, MaxUnavailable: &u}}
	}
}

// simulateMachines makes machines ready until the test ends.
func simulateMachines(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var all infrav1.CAPTMachineList
			_ = env.Client.List(ctx, &all, client.InNamespace(namespace))
			for i := range all.Items {
				if m := &all.Items[i]; m.Spec.InstanceType != broken && !machines.MachineOf(m).Ready {
					m.Status.Version = m.Spec.Version
					_ = setReady(ctx, m, metav1.ConditionTrue)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
}

func setReady(ctx context.Context, m *infrav1.CAPTMachine, status metav1.ConditionStatus) error {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: "Test"})
	return env.Client.Status().Update(ctx, m)
}

// alive returns the machines of a namespace that are not being deleted.
func alive(t *testing.T, namespace string) []*infrav1.CAPTMachine {
	t.Helper()
	var all infrav1.CAPTMachineList
	NewWithT(t).Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	var found []*infrav1.CAPTMachine
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp.IsZero() {
			found = append(found, &all.Items[i])
		}
	}
	return found
}

// setsOf returns the sets of a namespace by revision.
func setsOf(t *testing.T, namespace string) []*infrav1.CAPTMachineSet {
	t.Helper()
	var all infrav1.CAPTMachineSetList
	NewWithT(t).Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	var found []*infrav1.CAPTMachineSet
	for i := range all.Items {
		found = append(found, &all.Items[i])
	}
	slices.SortFunc(found, func(a, b *infrav1.CAPTMachineSet) int { return int(machines.Revision(a) - machines.Revision(b)) })
	return found
}

// sizes returns the revision, the size and the instance type of each set.
func sizes(t *testing.T, namespace string) []string {
	t.Helper()
	var text []string
	for _, set := range setsOf(t, namespace) {
		text = append(text, fmt.Sprintf("%d: %d %s", machines.Revision(set), *set.Spec.Replicas, set.Spec.Template.Spec.InstanceType))
	}
	return text
}

// waitRolledOut waits until every machine is available and up to date.
func waitRolledOut(t *testing.T, d *infrav1.CAPTMachineDeployment) {
	t.Helper()
	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionTrue, infrav1.RolloutCompleteReason)
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyCondition)
}
