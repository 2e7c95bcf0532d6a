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
	"github.com/appthrust/capt/internal/cli/describe"
)

// network makes a Cluster with a CAPTCluster and its workspace.
func (w *world) network(name string) (*clusterv1.Cluster, *infrav1.CAPTCluster, *infrav1.WorkspaceTemplateApply) {
	w.t.Helper()
	c := cluster(name, nil)
	w.create(c)
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	infra := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	infra.Spec.Region = "eu-west-1"
	infra.Spec.ExistingVPCID = "vpc-0123456789abcdef0"
	controls(c, infra, "Cluster", clusterv1.GroupVersion.String())
	w.create(infra)
	vpc := workspace(name + "-net")
	vpc.Labels = labels
	controls(infra, vpc, "CAPTCluster", infrav1.GroupVersion.String())
	w.create(vpc)
	return c, infra, vpc
}

func TestDescribe_showsTheTreeOfACluster(t *testing.T) {
	w := newWorld(t)
	_, infra, vpc := w.network("demo")
	w.report(infra, func() {
		infra.Status.Conditions = condition("Ready", "False", "WaitingForWorkspace", "VPCReady: waits")
	})
	w.report(vpc, func() {
		vpc.Status.Run = &infrav1.RunStatus{ID: "demo-net-r1", Operation: "PlanAndApply", Progress: &infrav1.RunProgress{Phase: "Applying", Done: 1, Total: 4}}
	})

	a := w.run("describe", "cluster", "demo")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp(`(?m)^Cluster/demo +\? NotReported`))
	w.Expect(a.out).To(MatchRegexp(`(?m)^├─CAPTCluster/demo +… WaitingForWorkspace +\ds +VPCReady: waits$`))
	w.Expect(a.out).To(MatchRegexp(`(?m)^│ └─Workspace/demo-net +\? NotReported`))
	w.Expect(a.out).To(MatchRegexp(`(?m)^│   └─Run/demo-net-r1 +… Applying +██░░░░░░░░ 1/4$`))
	w.Expect(a.out).NotTo(ContainSubstring("\x1b"), "no colours without a terminal")

	a = w.run("describe", "cluster", "demo", "-o", "json")
	w.Expect(a.code).To(Equal(0), a.err)
	var tree describe.Node
	w.Expect(json.Unmarshal([]byte(a.out), &tree)).To(Succeed())
	w.Expect(tree.Children[0].Children[0].Children[0].Progress.Total).To(BeEquivalentTo(4))
}

func TestDescribe_isPlainAboutWhatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	a := w.run("describe", "cluster", "demo")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(Equal(`cluster "demo" not found in namespace "` + w.namespace + `", which has no clusters: choose another namespace with -n`))

	w.create(cluster("demo", nil))
	a = w.run("describe", "cluster", "demmo")
	w.Expect(a.err).To(Equal(`cluster "demmo" not found in namespace "` + w.namespace + `": did you mean "demo"?`))
}

func TestDescribe_followsChangesByWatch(t *testing.T) {
	w := newWorld(t)
	_, infra, vpc := w.network("demo")
	command := w.start("describe", "cluster", "demo", "--watch")
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Workspace/demo-net"))

	w.report(vpc, func() {
		vpc.Status.Conditions = condition("Ready", "False", "WaitingForApproval", "Applied: plan-1 waits")
	})
	w.Eventually(command.out.String, patience).Should(MatchRegexp(`(?m)^\S+Z  Workspace/demo-net  ! WaitingForApproval  Applied: plan-1 waits$`))
	w.report(infra, func() { infra.Status.Conditions = condition("Ready", "True", "Ready", "") })
	w.Eventually(command.out.String, patience).Should(MatchRegexp(`(?m)^\S+Z  CAPTCluster/demo  ✓ Ready$`))
	command.stop()
	w.Eventually(command.code, patience).Should(Receive(Equal(0)))
}

func TestDescribe_watchEndsWithTheCluster(t *testing.T) {
	w := newWorld(t)
	c := cluster("demo", nil)
	w.create(c)
	command := w.start("describe", "cluster", "demo", "-w")
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Cluster/demo"))
	w.Expect(env.Client.Delete(w.ctx, c)).To(Succeed())
	w.Eventually(command.code, patience).Should(Receive(Equal(0)))
	w.Expect(command.err.String()).To(Equal("Cluster demo is gone\n"))
}

func TestDescribe_showsTheNodesOfTheWorkloadCluster(t *testing.T) {
	w := newWorld(t)
	c := cluster("demo", nil)
	w.create(c)
	w.report(c, func() { c.Status.Initialization.ControlPlaneInitialized = new(true) })
	a := w.run("describe", "cluster", "demo")
	w.Expect(a.out).To(MatchRegexp(`(?m)^  └─Nodes +\? NotSeen +not seen from here: there is no Secret demo-kubeconfig yet$`))

	// The API server stands for its own workload cluster.
	text, err := os.ReadFile(env.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": text}})
	command := w.start("describe", "cluster", "demo", "--watch")
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Cluster/demo"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	w.Expect(env.Client.Create(w.ctx, node)).To(Succeed())
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Node/" + node.Name + "  ? NotReported"))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.NodeInfo.KubeletVersion = "v1.33.4"
	w.Expect(env.Client.Status().Update(w.ctx, node)).To(Succeed())
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Node/" + node.Name + "  ✓ Ready  v1.33.4"))
	command.stop()
	w.Eventually(command.code, patience).Should(Receive(Equal(0)))

	a = w.run("describe", "cluster", "demo")
	w.Expect(a.out).To(MatchRegexp(`(?m)^  └─Node/` + node.Name + ` +✓ Ready +v1\.33\.4$`))
}
