package cli_test

import (
	"encoding/json"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
)

// network creates a Cluster with a CAPTCluster and its workspace.
func (h *harness) network(name string) (*clusterv1.Cluster, *infrav1.CAPTCluster, *infrav1.WorkspaceTemplateApply) {
	h.t.Helper()
	c := cluster(name, nil)
	h.create(c)
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	infra := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	infra.Spec.Region = "eu-west-1"
	infra.Spec.ExistingVPCID = "vpc-0123456789abcdef0"
	setController(c, infra, "Cluster", clusterv1.GroupVersion.String())
	h.create(infra)
	vpc := workspace(name + "-net")
	vpc.Labels = labels
	setController(infra, vpc, "CAPTCluster", infrav1.GroupVersion.String())
	h.create(vpc)
	return c, infra, vpc
}

func TestDescribe_showsTheTreeOfACluster(t *testing.T) {
	h := newHarness(t)
	_, infra, vpc := h.network("demo")
	h.setStatus(infra, func() {
		infra.Status.Conditions = condition("Ready", "False", "WaitingForWorkspace", "InfrastructureReady: not ready")
	})
	h.setStatus(vpc, func() {
		vpc.Status.Run = &infrav1.RunStatus{ID: "demo-net-r1", Operation: "PlanAndApply", Progress: &infrav1.RunProgress{Phase: "Applying", Done: 1, Total: 4}}
	})

	a := h.run("describe", "cluster", "demo")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(MatchRegexp(`(?m)^Cluster/demo +\? NotReported`))
	h.Expect(a.out).To(MatchRegexp(`(?m)^├─CAPTCluster/demo +… WaitingForWorkspace +\d+s +InfrastructureReady: not ready$`))
	h.Expect(a.out).To(MatchRegexp(`(?m)^│ └─Workspace/demo-net +\? NotReported`))
	h.Expect(a.out).To(MatchRegexp(`(?m)^│   └─Run/demo-net-r1 +… Applying +██░░░░░░░░ 1/4$`))
	h.Expect(a.out).NotTo(ContainSubstring("\x1b"), "no colours without a terminal")

	a = h.run("describe", "cluster", "demo", "-o", "json")
	h.Expect(a.code).To(Equal(0), a.err)
	var tree describe.Node
	h.Expect(json.Unmarshal([]byte(a.out), &tree)).To(Succeed())
	h.Expect(tree.Children[0].Children[0].Children[0].Progress.Total).To(BeEquivalentTo(4))
}

func TestDescribe_watchShowsChanges(t *testing.T) {
	h := newHarness(t)
	_, infra, vpc := h.network("demo")
	command := h.start("describe", "cluster", "demo", "--watch")
	h.Eventually(command.out.String).Should(ContainSubstring("Workspace/demo-net"))

	h.setStatus(vpc, func() {
		vpc.Status.Conditions = condition("Ready", "False", "WaitingForApproval", "Applied: plan-1 waits")
	})
	h.Eventually(command.out.String).Should(MatchRegexp(`(?m)^\S+Z  Workspace/demo-net  ! WaitingForApproval  Applied: plan-1 waits$`))
	h.setStatus(infra, func() { infra.Status.Conditions = condition("Ready", "True", "Ready", "") })
	h.Eventually(command.out.String).Should(MatchRegexp(`(?m)^\S+Z  CAPTCluster/demo  ✓ Ready$`))
	command.stop()
	h.Eventually(command.code).Should(Receive(Equal(0)))
}

func TestDescribe_watchEndsWhenTheClusterIsDeleted(t *testing.T) {
	h := newHarness(t)
	c := cluster("demo", nil)
	h.create(c)
	command := h.start("describe", "cluster", "demo", "-w")
	h.Eventually(command.out.String).Should(ContainSubstring("Cluster/demo"))
	h.Expect(env.Client.Delete(h.ctx, c)).To(Succeed())
	h.Eventually(command.code).Should(Receive(Equal(0)))
	h.Expect(command.err.String()).To(Equal("Cluster demo was deleted\n"))
}

func TestDescribe_showsTheNodesOfTheWorkloadCluster(t *testing.T) {
	h := newHarness(t)
	c := cluster("demo", nil)
	h.create(c)
	h.setStatus(c, func() { c.Status.Initialization.ControlPlaneInitialized = new(true) })
	a := h.run("describe", "cluster", "demo")
	h.Expect(a.out).To(MatchRegexp(`(?m)^  └─Nodes +\? NotSeen +Nodes cannot be listed: the Secret demo-kubeconfig does not exist yet$`))

	// The API server is its own workload cluster.
	text, err := os.ReadFile(env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": text}})
	command := h.start("describe", "cluster", "demo", "--watch")
	h.Eventually(command.out.String).Should(ContainSubstring("Cluster/demo"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	h.Expect(env.Client.Create(h.ctx, node)).To(Succeed())
	h.Eventually(command.out.String).Should(ContainSubstring("Node/" + node.Name + "  ? NotReported"))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.NodeInfo.KubeletVersion = "v1.33.4"
	h.Expect(env.Client.Status().Update(h.ctx, node)).To(Succeed())
	h.Eventually(command.out.String).Should(ContainSubstring("Node/" + node.Name + "  ✓ Ready  v1.33.4"))
	command.stop()
	h.Eventually(command.code).Should(Receive(Equal(0)))

	a = h.run("describe", "cluster", "demo")
	h.Expect(a.out).To(MatchRegexp(`(?m)^  [├└]─Node/` + node.Name + ` +✓ Ready +v1\.33\.4$`))
}
