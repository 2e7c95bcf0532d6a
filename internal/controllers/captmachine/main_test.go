package captmachine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
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
	"github.com/appthrust/capt/internal/controllers/captbootstrapconfig"
	"github.com/appthrust/capt/internal/controllers/workspacetemplate"
	"github.com/appthrust/capt/internal/terraform/usage"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithControllerManager(), testenv.WithClusterAPI(), testenv.WithManager(setup)))
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
	if err := (&captbootstrapconfig.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-bootstrap"),
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
		Clusters: clusters, Recorder: mgr.GetEventRecorder("capt-machine"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 4})
}

// outputsFor is what the stand-in for the engine tells of a workspace.
func outputsFor(apply *infrav1.WorkspaceTemplateApply) map[string]any {
	if apply.Spec.TemplateRef.Name == "eks" {
		return nodestest.ControlPlaneOutputs()
	}
	return map[string]any{
		"provider_id": providerID(apply.Namespace, apply.Name), "availability_zone": "ap-northeast-1a",
		"addresses": []map[string]string{{"type": "InternalIP", "address": "10.0.0.1"}},
	}
}

func providerID(namespace, name string) string { return "test:///" + namespace + "/" + name }

// nodeModule is a module of one node that declares what a machine may give.
const nodeModule = `
variable "name" {}
variable "cluster_name" {}
variable "cluster_endpoint" {}
variable "cluster_certificate_authority_data" {}
variable "node_security_group_id" {}
variable "vpc_id" {}
variable "subnet_ids" {}
variable "kubernetes_version" {}
variable "bootstrap_secret_name" { default = "" }
variable "labels" { default = {} }
variable "taints" { default = [] }
output "provider_id" { value = "test" }
`

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

const tick = 50 * time.Millisecond

// world is a namespace with a cluster and a template of nodes.
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
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "node"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: nodeModule}
	w.create(template)
	return w
}

// ready makes infrastructure and control plane of the cluster ready.
func (w *world) ready() {
	w.t.Helper()
	w.Expect(w.cluster.Provision(w.t.Context())).To(Succeed())
	w.Expect(w.cluster.Initialize(w.t.Context())).To(Succeed())
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Create(w.t.Context(), obj)).To(Succeed())
}

func (w *world) delete(obj client.Object, options ...client.DeleteOption) {
	w.t.Helper()
	w.Expect(env.Client.Delete(w.t.Context(), obj, options...)).To(Succeed())
}

// machine makes a machine that stands alone.
func (w *world) machine(name string, change ...func(*infrav1.CAPTMachine)) *infrav1.CAPTMachine {
	w.t.Helper()
	machine := &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "production"}},
		Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}},
	}
	for _, c := range change {
		c(machine)
	}
	w.create(machine)
	return machine
}

// join makes the node of a machine, which goes with the test.
func (w *world) join(machine string) *corev1.Node {
	w.t.Helper()
	name := w.namespace + "-" + machine
	node, err := nodestest.Join(w.t.Context(), env.Client, name, providerID(w.namespace, machine), nil)
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

// condition waits until a condition of a machine is as expected.
func (w *world) condition(machine *infrav1.CAPTMachine, condition string, status metav1.ConditionStatus, reason string, message ...string) {
	w.t.Helper()
	parts := []types.GomegaMatcher{}
	for _, part := range message {
		parts = append(parts, ContainSubstring(part))
	}
	w.eventually(machine, fmt.Sprintf("%s is to be %s for %s: %s", condition, status, reason, strings.Join(message, ", ")), func(g Gomega) {
		c := conditions.Get(machine, condition)
		g.Expect(c).NotTo(BeNil(), "%v", machine.Status.Conditions)
		g.Expect(c.Status).To(Equal(status), "%s: %s", c.Reason, c.Message)
		g.Expect(c.Reason).To(Equal(reason), "%s", c.Message)
		g.Expect(c.Message).To(And(parts...))
	})
}

func (w *world) gone(obj client.Object, why string) {
	w.t.Helper()
	w.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, patience, tick).Should(BeTrue(), why)
}

// apply is the workspace of a machine.
func (w *world) apply(name string) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
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
