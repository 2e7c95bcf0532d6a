package cluster

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestNames_sameNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	one, two := newHarnessOn(t, env), newHarnessOn(t, env)
	for _, h := range []*harness{one, two} {
		h.templates()
		h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	}
	first, second := one.waitReady("demo"), two.waitReady("demo")
	one.Expect(one.infra("demo").Status.VPCID).NotTo(Equal(two.infra("demo").Status.VPCID))

	one.destroy(first)

	two.Expect(two.infra("demo").Status.VPCID).NotTo(BeEmpty())
	two.waitReady("demo")
	two.destroy(second)
}

// The VPC of one cluster and the control plane of another may need workspaces of the
// same name: the owner is found by reference, not by name.
func TestNames_aClusterNamedLikeTheVPCOfAnother(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.waitReady("demo")

	named := newCluster("demo-vpc")
	named.Labels = map[string]string{"named": "true"}
	h.create(named, newInfra("demo-vpc"), newControlPlane("demo-vpc"))
	second := h.waitReady("demo-vpc")

	h.Expect(metav1.IsControlledBy(h.apply("demo-vpc"), h.infra("demo"))).To(BeTrue())
	other := h.controlPlane("demo-vpc").Status.WorkspaceRef.Name
	h.Expect(other).To(HavePrefix("demo-vpc-"))
	h.Expect(metav1.IsControlledBy(h.apply(other), h.controlPlane("demo-vpc"))).To(BeTrue())

	t.Log("an add-on takes the outputs of the control plane, whatever its workspace is called")
	h.create(newAddon("named", "named", fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: named, namespace: %s}
data: {workspace: "${WORKSPACE_NAME}", cluster: "${cluster_name}"}
`, h.namespace), func(s *addonsv1.CAPTAddonSpec) {
		s.Connection = &addonsv1.ConnectionSource{SecretName: "${WORKSPACE_NAME}-eks-connection", Keys: []string{"cluster_name"}}
		s.DeletionPolicy = addonsv1.DeletionPolicyRemove
	}))
	h.waitAddon("named", "demo-vpc", clusterv1.ReadyReason)
	h.Expect(get(h, "named", &corev1.ConfigMap{}).Data).To(Equal(map[string]string{"workspace": other, "cluster": "demo-vpc"}))

	h.destroy(second)
	h.waitReady("demo")
	h.Expect(h.apply("demo-vpc").DeletionTimestamp).To(BeNil())
}

// A Cluster may refer to objects of other names.
func TestNames_ownersAreFoundByReference(t *testing.T) {
	h := newHarness(t)
	h.templates()
	cluster := newCluster("demo")
	cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = "network", "plane"
	h.create(cluster, newInfra("network"), newControlPlane("plane"))

	waitCondition(h, "plane", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "True")
	h.Expect(h.apply("demo-vpc").Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
	h.Expect(metav1.IsControlledBy(h.apply("demo-vpc"), h.infra("network"))).To(BeTrue())
	h.Expect(metav1.IsControlledBy(h.apply("demo"), h.controlPlane("plane"))).To(BeTrue())
}
