package captmachinepool

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	// No webhook sets the user of the operations that the controller creates, as a policy requires.
	os.Exit(testenv.Run(m, &env, testenv.WithClusterAPI(), testenv.WithManager(setup), testenv.WithoutPolicies()))
}

// setup adds the real controllers and a fake Terraform engine.
func setup(mgr ctrl.Manager) error {
	ctx := context.Background()
	if err := usage.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := workspace.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := (&workspacetemplate.Reconciler{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("capt-template"), Now: time.Now,
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

// now returns a time in 20 minutes, so that tests do not wait for the pause after a run,
// and instances without a node count as deleted.
func now() time.Time { return time.Now().Add(20 * time.Minute) }

// leftOut is the namespace whose workspaces have too many nodes for their status.
var leftOut atomic.Value

// outputsFor returns the outputs of a workspace, with the desired number of nodes.
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
		// Descending order: the pool sorts the list.
		list = append([]string{providerID(apply.Namespace, i)}, list...)
	}
	if apply.Namespace == leftOut.Load() {
		return map[string]any{"provider_id": "group-" + apply.Name}
	}
	return map[string]any{
		"provider_id_list": list, "provider_id": "group-" + apply.Name, "node_selector": map[string]string{"group": apply.Namespace},
	}
}

func providerID(namespace string, number int) string {
	return fmt.Sprintf("test:///%s/%d", namespace, number)
}

// groupModule is a module for a node group.
const groupModule = `
variable "name" {}
variable "cluster_name" {}
variable "desired_size" { default = 1 }
variable "min_size" { default = 0 }
variable "max_size" { default = 10 }
variable "autoscaled" { default = false }
variable "subnet_ids" {}
variable "kubernetes_version" {}
variable "bootstrap_secret_name" { default = "" }
variable "capacity_type" { default = "" }
output "provider_id_list" { value = [] }
`

// harness is a namespace with a ready cluster and a template for node groups.
type harness struct{ *nodestest.Harness }

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{Harness: nodestest.NewHarness(t, env)}
	h.MakeReady()
	h.CreateTemplate("group", groupModule)
	return h
}

// pool creates a MachinePool and the CAPTMachinePool that it owns.
func (h *harness) pool(replicas int32, change ...func(*clusterv1.MachinePool)) (*clusterv1.MachinePool, *infrav1.CAPTMachinePool) {
	h.T.Helper()
	infra := &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "spot"},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "group"}},
	}
	h.Create(infra)
	owner := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "spot"},
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
	h.Create(owner)
	return owner, infra
}

// settle waits until the controllers have handled a new pool.
func (h *harness) settle() {
	h.T.Helper()
	later := &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "later-" + rand.String(5)},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "group"}},
	}
	h.Create(later)
	h.WaitFor(later, "the later pool should be handled", func(g Gomega) {
		g.Expect(later.Finalizers).NotTo(BeEmpty())
	})
}

// join creates a node of the pool.
func (h *harness) join(number int) *corev1.Node {
	h.T.Helper()
	return h.Join(fmt.Sprintf("%s-%d", h.Namespace, number), providerID(h.Namespace, number), map[string]string{"group": h.Namespace})
}

// workspace returns the workspace of the pool, without reading it.
func (h *harness) workspace() *infrav1.WorkspaceTemplateApply { return h.Workspace("spot") }

// setOutputs sets the outputs of the next run.
func (h *harness) setOutputs(outputs string) {
	h.T.Helper()
	apply := h.workspace()
	h.Update(apply, func() {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.OutputsAnnotation, outputs)
	})
}

// operations returns what was requested of the workspace of the pool.
func (h *harness) operations() []infrav1.WorkspaceOperation {
	h.T.Helper()
	var list infrav1.WorkspaceOperationList
	h.Expect(env.Client.List(h.T.Context(), &list, client.InNamespace(h.Namespace))).To(Succeed())
	return list.Items
}
