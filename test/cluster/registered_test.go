package cluster

import (
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// registered creates a Cluster for a cluster that exists already: it has a kubeconfig, no control
// plane in the management cluster, and infrastructure that another system manages. It is the API
// server of the tests.
func (h *harness) registered(name string, labels map[string]string) {
	h.t.Helper()
	kubeconfig, err := os.ReadFile(h.env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	infra := newInfra(name)
	infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "another-system"}
	h.create(
		infra,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: name}},
			Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
		},
		&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       clusterv1.ClusterSpec{InfrastructureRef: newCluster(name).Spec.InfrastructureRef},
		})
	infra.Status.Initialization.Provisioned = new(true)
	h.Expect(h.env.Client.Status().Update(h.ctx, infra)).To(Succeed())
}

// An add-on needs neither a control plane of CAPT nor a connection Secret.
func TestAddon_worksInAClusterThatExistsAlready(t *testing.T) {
	h := newHarness(t)
	name := h.namespace
	h.create(newAddon("settings", "settings", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {team: \"${TEAM}\", cluster: \"${CLUSTER_NAME}\"}\n", name), func(s *addonsv1.CAPTAddonSpec) {
		s.ClusterValues = []addonsv1.ClusterValue{{Name: "TEAM", Label: "example.com/team"}}
		s.DeletionPolicy = addonsv1.DeletionPolicyRemove
	}))
	h.registered(name, map[string]string{"settings": "true", "example.com/team": "a"})
	h.waitAddon("settings", name, clusterv1.ReadyReason)
	key, installed := client.ObjectKey{Namespace: "default", Name: name}, &corev1.ConfigMap{}
	h.Expect(h.env.Client.Get(h.ctx, key, installed)).To(Succeed())
	h.Expect(installed.Data).To(Equal(map[string]string{"team": "a", "cluster": name}))

	t.Log("the label of the Cluster changes")
	change(h, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Labels["example.com/team"] = "b" })
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.Get(h.ctx, key, installed)).To(Succeed())
		g.Expect(installed.Data).To(HaveKeyWithValue("team", "b"))
	}, testTimeout).Should(Succeed())

	t.Log("a paused cluster does not change")
	change(h, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	h.waitAddon("settings", name, addonsv1.ClusterPausedReason)
	change(h, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { delete(c.Labels, "settings") })
	h.waitAddon("settings", name, addonsv1.ClusterPausedReason+" Cluster is paused: its objects are removed")
	h.Expect(h.env.Client.Get(h.ctx, key, installed)).To(Succeed())

	change(h, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	h.Eventually(func(g Gomega) {
		g.Expect(get(h, "settings", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
	}, testTimeout).Should(Succeed())
	h.Expect(apierrors.IsNotFound(h.env.Client.Get(h.ctx, key, installed))).To(BeTrue(), "policy Remove")
}
