package captmachine

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/captbootstrapconfig"
	"github.com/appthrust/capt/internal/controllers/workspacetemplate"
	"github.com/appthrust/capt/internal/terraform/usage"
	"github.com/appthrust/capt/internal/testenv"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithControllerManager(), testenv.WithClusterAPI(), testenv.WithManager(setup)))
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

// outputsFor returns the outputs of a workspace.
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

// nodeModule is a module for one node that declares most variables of machines.
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

// harness is a namespace with a cluster and a template for nodes.
type harness struct{ *nodestest.Harness }

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{Harness: nodestest.NewHarness(t, env)}
	h.CreateTemplate("node", nodeModule)
	return h
}

// machine creates a machine without an owner.
func (h *harness) machine(name string, change ...func(*infrav1.CAPTMachine)) *infrav1.CAPTMachine {
	h.T.Helper()
	machine := &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "production"}},
		Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}},
	}
	for _, c := range change {
		c(machine)
	}
	h.Create(machine)
	return machine
}

// settle waits until the controllers have handled a new machine.
func (h *harness) settle() {
	h.T.Helper()
	later := h.machine("later-" + rand.String(5))
	h.WaitFor(later, "the later machine should be handled", func(g Gomega) {
		g.Expect(later.Status.ObservedGeneration).To(Equal(later.Generation))
	})
}

// join creates the node of a machine.
func (h *harness) join(machine string) *corev1.Node {
	h.T.Helper()
	return h.Join(h.Namespace+"-"+machine, providerID(h.Namespace, machine), nil)
}
