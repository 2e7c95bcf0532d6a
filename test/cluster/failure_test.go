package cluster

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// failing makes the run of a module fail with a diagnostic.
const failing = `
resource "terraform_data" "limit" {
  lifecycle {
    precondition {
      condition     = var.name == ""
      error_message = "VpcLimitExceeded: the maximum number of VPCs has been reached."
    }
  }
}
`

func TestFailure_isReportedByEveryOwner(t *testing.T) {
	h := newHarness(t)
	h.templates()
	change(h, "vpc", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = vpcModule + failing
	})
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))

	const diagnostic = "VpcLimitExceeded: the maximum number of VPCs has been reached."
	c := waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "False WorkspaceFailed")
	h.Expect(c.Message).To(And(ContainSubstring("WorkspaceTemplateApply demo-vpc"), ContainSubstring(diagnostic)))
	h.Eventually(func(g Gomega) {
		c := objecttest.Condition(h.cluster("demo"), clusterv1.ClusterInfrastructureReadyCondition)
		g.Expect(objecttest.Text(c)).To(And(HavePrefix("False WorkspaceFailed"), ContainSubstring(diagnostic)))
	}, testTimeout).Should(Succeed(), "Cluster API mirrors the condition")
	c = waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, infrav1.ReadyCondition, "False WaitingForInfrastructure")
	h.Expect(c.Message).To(ContainSubstring("CAPTCluster demo has no VPC yet"))

	h.Expect(h.run("kubectl", "get", "captclusters")).To(MatchRegexp(`demo\s+demo\s+local-1\s+False\s+WorkspaceFailed`))
	h.Expect(h.run("kubectl", "get", "captclusters", "-o", "wide")).To(ContainSubstring(diagnostic))
	described := h.run("clusterctl", "describe", "cluster", "demo", "--show-conditions", "all", "--grouping=false")
	h.Expect(strings.Join(strings.Fields(described), " ")).To(And(
		ContainSubstring("├─CAPTCluster "+h.namespace+"/demo │ ├─Ready False WorkspaceFailed"),
		ContainSubstring("└─CAPTControlPlane "+h.namespace+"/demo, v1.37.0 ├─Ready False WaitingForInfrastructure"),
		ContainSubstring("VpcLimitExceeded: the maximum number of VPCs has been reached.")))

	change(h, "vpc", &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) {
		t.Spec.Template.Spec.ForProvider.Module = vpcModule
	})
	h.waitReady("demo")
}

// run runs a program with the environment's kubeconfig and returns its output.
func (h *harness) run(name string, args ...string) string {
	h.t.Helper()
	program, err := testenv.Part(name)
	h.Expect(err).NotTo(HaveOccurred())
	var out, errs bytes.Buffer
	cmd := exec.Command(program, append(args, "--kubeconfig", h.env.Kubeconfig, "-n", h.namespace)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	h.Expect(cmd.Run()).To(Succeed(), errs.String())
	return out.String()
}
