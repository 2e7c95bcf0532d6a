package captmachine

import (
	"errors"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// manifests creates the objects of a file of the repository that match.
func (h *harness) manifests(path string, match func(*unstructured.Unstructured) bool) {
	h.T.Helper()
	text := testenv.ReadFile(h.T, path)
	objects, err := manifest.Parse(text)
	h.Expect(err).NotTo(HaveOccurred())
	for _, obj := range objects {
		if match(obj) {
			obj.SetNamespace(h.Namespace)
			h.Create(obj)
		}
	}
}

// only waits until a list has one object and returns it.
func only[T any, L client.ObjectList](h *harness, list L, items func(L) []T) *T {
	h.T.Helper()
	var found T
	h.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(h.T.Context(), list, nodes.InCluster(h.Namespace, "topology-workers")...)).To(Succeed())
		all := items(list)
		g.Expect(all).To(HaveLen(1))
		found = all[0]
	}).Should(Succeed(), "Cluster API should create it from its template")
	return &found
}

func TestClusterClass_createsWorkers(t *testing.T) {
	h := newHarness(t)
	is := func(kinds ...string) func(*unstructured.Unstructured) bool {
		return func(obj *unstructured.Unstructured) bool {
			for _, kind := range kinds {
				if obj.GetKind() == kind {
					return true
				}
			}
			return false
		}
	}
	const class = "clusterclasses/eks.yaml"
	h.manifests(class, is("CAPTClusterTemplate", "CAPTControlPlaneTemplate", "CAPTBootstrapConfigTemplate", "CAPTMachineTemplate", "CAPTMachinePoolTemplate"))
	h.manifests(class, is("ClusterClass"))
	h.CreateTemplate("eks-machine", nodeModule+"variable \"instance_type\" {}\n")
	h.Eventually(func() error {
		// The webhook requires that the class has been reconciled.
		obj := &clusterv1.ClusterClass{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: h.Namespace, Name: "eks"}, obj); err != nil {
			return err
		}
		if obj.Status.ObservedGeneration != obj.Generation {
			return errors.New("not reconciled yet")
		}
		return nil
	}).Should(Succeed(), "Cluster API should reconcile the class")
	h.manifests("examples/cluster-class-workers.yaml", is("Cluster"))

	cluster := &nodestest.Cluster{
		Client:  env.Client,
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "topology-workers"}},
		Infra:   only(h, &infrav1.CAPTClusterList{}, func(l *infrav1.CAPTClusterList) []infrav1.CAPTCluster { return l.Items }),
		ControlPlane: only(h, &controlplanev1.CAPTControlPlaneList{}, func(l *controlplanev1.CAPTControlPlaneList) []controlplanev1.CAPTControlPlane {
			return l.Items
		}),
	}
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	h.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "topology-workers-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "topology-workers"}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	})
	h.Expect(cluster.Provision(t.Context())).To(Succeed())
	h.Expect(cluster.Initialize(t.Context())).To(Succeed())

	h.Eventually(func(g Gomega) {
		machines := h.machines(g)
		g.Expect(machines).To(HaveLen(2))
		for _, m := range machines {
			g.Expect(m.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()), "%v", m.Status.Conditions)
			g.Expect(m.Spec.Bootstrap.ConfigRef.Kind).To(Equal("CAPTBootstrapConfig"))
		}
	}).Should(Succeed(), "the class should create nodes")
	nodeGroup := only(h, &infrav1.CAPTMachinePoolList{}, func(l *infrav1.CAPTMachinePoolList) []infrav1.CAPTMachinePool { return l.Items })
	h.Expect(nodeGroup.Spec.CapacityType).To(Equal(infrav1.CapacityTypeSpot), "a worker overrides variables of the class")
	pool := only(h, &clusterv1.MachinePoolList{}, func(l *clusterv1.MachinePoolList) []clusterv1.MachinePool { return l.Items })
	h.WaitFor(pool, "the node group should get its bootstrap data", func(g Gomega) {
		g.Expect(pool.Spec.Template.Spec.InfrastructureRef.Kind).To(Equal("CAPTMachinePool"))
		g.Expect(pool.Spec.Template.Spec.Bootstrap.DataSecretName).NotTo(BeNil())
	})
	var configs bootstrapv1.CAPTBootstrapConfigList
	h.Expect(env.Client.List(t.Context(), &configs, client.InNamespace(h.Namespace))).To(Succeed())
	h.Expect(configs.Items).To(HaveLen(3), "one for each node, and one for the node group")
}
