package captmachinepool

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/workspacetemplate"
	"github.com/appthrust/capt/internal/terraform/usage"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithClusterAPI(), testenv.WithManager(setup)))
}

// setup adds the real controllers, but for the engine that runs Terraform.
func setup(mgr ctrl.Manager) error {
	ctx := context.Background()
	if err := usage.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := workspace.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := (&workspacetemplate.Reconciler{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("capt-template"),
		Usage: usage.Finder{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
	}).SetupWithManager(mgr, controller.Options{}); err != nil {
		return err
	}
	clusters, err := nodestest.Clusters(ctx, mgr)
	if err != nil {
		return err
	}
	if err := (&nodestest.Engine{Client: mgr.GetClient(), Outputs: outputsFor}).SetupWithManager(mgr); err != nil {
		return err
	}
	return (&Reconciler{
		Client: mgr.GetClient(), Workspaces: &workspace.Keeper{Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
		Clusters: clusters, Recorder: mgr.GetEventRecorder("capt-machine-pool"), Now: now,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 4})
}

// now is an hour late, so that no pause after a run has to be waited for.
func now() time.Time { return time.Now().Add(time.Hour) }

// outputsFor is what the stand-in for the engine tells of a workspace: as many
// nodes as were asked for.
func outputsFor(apply *infrav1.WorkspaceTemplateApply) map[string]any {
	if apply.Spec.TemplateRef.Name == "eks" {
		return nodestest.ControlPlaneOutputs()
	}
	list := []string{}
	var size int
	if value, found := apply.Spec.Variables["desired_size"]; found {
		_, _ = fmt.Sscan(value.String(), &size)
	}
	for i := range size {
		// The last comes first: the pool sorts.
		list = append([]string{providerID(apply.Namespace, i)}, list...)
	}
	return map[string]any{
		"provider_id_list": list, "provider_id": "group-" + apply.Name, "node_selector": map[string]string{"group": apply.Namespace},
	}
}

func providerID(namespace string, number int) string {
	return fmt.Sprintf("test:///%s/%d", namespace, number)
}

// groupModule is a module of a node group.
const groupModule = `
variable "name" {}
variable "cluster_name" {}
variable "desired_size" { default = 1 }
variable "min_size" { default = 0 }
variable "max_size" { default = 10 }
variable "subnet_ids" {}
variable "kubernetes_version" {}
variable "bootstrap_secret_name" { default = "" }
variable "capacity_type" { default = "" }
output "provider_id_list" { value = [] }
`

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

const tick = 50 * time.Millisecond

// world is a namespace with a cluster and a template of node groups.
type world struct {
	*WithT
	t         *testing.T
	namespace string
	cluster   *nodestest.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{WithT: NewWithT(t), t: t, namespace: env.Namespace(t)}
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.cluster, err = nodestest.NewCluster(t.Context(), env.Client, w.namespace, "production", kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.cluster.Provision(t.Context())).To(Succeed())
	w.Expect(w.cluster.Initialize(t.Context())).To(Succeed())
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "group"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: groupModule}
	w.create(template)
	return w
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Create(w.t.Context(), obj)).To(Succeed())
}

// pool makes a MachinePool of Cluster API and the pool below it.
func (w *world) pool(replicas int32, change ...func(*clusterv1.MachinePool)) (*clusterv1.MachinePool, *infrav1.CAPTMachinePool) {
	w.t.Helper()
	infra := &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "spot"},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "group"}},
	}
	w.create(infra)
	owner := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "spot"},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: "production", Replicas: &replicas,
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: "production", Version: nodestest.Version, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: "spot"},
			}},
		},
	}
	for _, c := range change {
		c(owner)
	}
	w.create(owner)
	return owner, infra
}

// join makes a node of the pool, which goes with the test.
func (w *world) join(number int) *corev1.Node {
	w.t.Helper()
	node, err := nodestest.Join(w.t.Context(), env.Client, fmt.Sprintf("%s-%d", w.namespace, number), providerID(w.namespace, number), map[string]string{"group": w.namespace})
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { _ = env.Client.Delete(context.Background(), node) })
	return node
}

// eventually waits until an object is as expected.
func (w *world) eventually(obj client.Object, why string, check func(g Gomega)) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		check(g)
	}, patience, tick).Should(Succeed(), why)
}

// condition waits until a condition of a pool is as expected.
func (w *world) condition(pool *infrav1.CAPTMachinePool, condition string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	w.eventually(pool, fmt.Sprintf("%s is to be %s for %s", condition, status, reason), func(g Gomega) {
		c := conditions.Get(pool, condition)
		g.Expect(c).NotTo(BeNil(), "%v", pool.Status.Conditions)
		g.Expect(c.Status).To(Equal(status), "%s: %s", c.Reason, c.Message)
		g.Expect(c.Reason).To(Equal(reason), "%s", c.Message)
	})
}

func (w *world) gone(obj client.Object, why string) {
	w.t.Helper()
	w.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, patience, tick).Should(BeTrue(), why)
}

// apply is the workspace of the pool.
func (w *world) apply() *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "spot"}}
}

// tell has the stand-in for the engine tell other outputs from its next run on.
func (w *world) tell(outputs string) {
	w.t.Helper()
	apply := w.apply()
	w.eventually(apply, "the outputs change", func(g Gomega) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.OutputsAnnotation, outputs)
		g.Expect(env.Client.Update(w.t.Context(), apply)).To(Succeed())
	})
}

// rest checks that nothing writes an object any more.
func (w *world) rest(objects ...client.Object) {
	w.t.Helper()
	versions := func() []string {
		var all []string
		for _, obj := range objects {
			w.Expect(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			all = append(all, obj.GetResourceVersion())
		}
		return all
	}
	w.Consistently(versions, 2*time.Second, tick).Should(Equal(versions()), "what is at rest costs no write")
}
