package captmachine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/testenv"
)

// example creates the objects of an example that match.
func (w *world) example(name string, match func(*unstructured.Unstructured) bool) {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "examples", name))
	w.Expect(err).NotTo(HaveOccurred())
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		w.Expect(err).NotTo(HaveOccurred())
		if match(obj) {
			obj.SetNamespace(w.namespace)
			w.create(obj)
		}
	}
}

// only returns the only object of a list.
func only[T client.Object, L client.ObjectList](w *world, list L, items func(L) []T) T {
	w.t.Helper()
	var found T
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(w.t.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: "topology-workers"})).To(Succeed())
		all := items(list)
		g.Expect(all).To(HaveLen(1))
		found = all[0]
	}, patience, tick).Should(Succeed(), "Cluster API makes it from its template")
	return found
}

func TestClusterClass_makesWorkers(t *testing.T) {
	w := newWorld(t)
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
	w.example("cluster-class.yaml", is("CAPTClusterTemplate", "CAPTControlPlaneTemplate"))
	w.example("cluster-class-workers.yaml", is("CAPTBootstrapConfigTemplate", "CAPTMachineTemplate", "CAPTMachinePoolTemplate"))
	w.example("cluster-class-workers.yaml", is("ClusterClass"))
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "eks-machine"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{
		Source: infrav1.ModuleSourceInline, Module: nodeModule + "variable \"instance_type\" {}\n",
	}
	w.create(template)
	w.Eventually(func() error {
		// The webhook wants the class to have been looked at.
		obj := &clusterv1.ClusterClass{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "eks-workers"}, obj); err != nil {
			return err
		}
		if obj.Status.ObservedGeneration != obj.Generation {
			return errors.New("not looked at yet")
		}
		return nil
	}, patience, tick).Should(Succeed(), "Cluster API takes the class")
	w.example("cluster-class-workers.yaml", is("Cluster"))

	made := &nodestest.Cluster{
		Client:  env.Client,
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "topology-workers"}},
		Infra: only(w, &infrav1.CAPTClusterList{}, func(l *infrav1.CAPTClusterList) []*infrav1.CAPTCluster {
			return pointers(l.Items)
		}),
		ControlPlane: only(w, &controlplanev1.CAPTControlPlaneList{}, func(l *controlplanev1.CAPTControlPlaneList) []*controlplanev1.CAPTControlPlane {
			return pointers(l.Items)
		}),
	}
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "topology-workers-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "topology-workers"}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	})
	w.Expect(made.Provision(t.Context())).To(Succeed())
	w.Expect(made.Initialize(t.Context())).To(Succeed())

	w.Eventually(func(g Gomega) {
		machines := w.machines(g)
		g.Expect(machines).To(HaveLen(2))
		for _, m := range machines {
			g.Expect(m.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()), "%v", m.Status.Conditions)
			g.Expect(m.Spec.Bootstrap.ConfigRef.Kind).To(Equal("CAPTBootstrapConfig"))
		}
	}, patience, tick).Should(Succeed(), "the class makes nodes")
	pool := only(w, &clusterv1.MachinePoolList{}, func(l *clusterv1.MachinePoolList) []*clusterv1.MachinePool { return pointers(l.Items) })
	w.eventually(pool, "a node group gets its bootstrap data", func(g Gomega) {
		g.Expect(pool.Spec.Template.Spec.InfrastructureRef.Kind).To(Equal("CAPTMachinePool"))
		g.Expect(pool.Spec.Template.Spec.Bootstrap.DataSecretName).NotTo(BeNil())
	})
	var configs bootstrapv1.CAPTBootstrapConfigList
	w.Expect(env.Client.List(t.Context(), &configs, client.InNamespace(w.namespace))).To(Succeed())
	w.Expect(configs.Items).To(HaveLen(3), "one for each node, and one for the node group")
}

func pointers[T any](items []T) []*T {
	var all []*T
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}
