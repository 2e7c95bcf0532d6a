package cluster

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
)

func (h *harness) captctl(args ...string) (string, error) {
	var out bytes.Buffer
	root := cli.New(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	root.SetArgs(append([]string{"--kubeconfig", h.env.Kubeconfig, "-n", h.namespace}, args...))
	err := root.ExecuteContext(h.ctx)
	return out.String(), err
}

func TestCaptctl_followsAClusterFromCreationToDeletion(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	h.create(newCluster(name), newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.Version, s.WorkspaceTemplateRef.Name = "v1.37.0", "local-controlplane"
		}))
	followed := make(chan string, 1)
	go func() {
		out, _ := h.captctl("describe", "cluster", name, "--watch")
		followed <- out
	}()
	h.waitReady(name)
	h.Expect(h.captctl("describe", "cluster", name)).To(MatchRegexp(`(?m)^├─CAPTCluster/` + name + ` +✓ Ready +[\dms]+
│ └─Workspace/` + name + `-vpc +✓ Ready +[\dms]+ +8 resources
├─CAPTControlPlane/` + name + ` +✓ Ready +[\dms]+ +Kubernetes v1.37.1 at 127.0.0.1
│ └─Workspace/` + name + ` +✓ Ready +[\dms]+ +3 resources
└─Workload/API server .*
  └─Nodes +none$`))
	all, err := h.captctl("describe", "cluster", name, "--show-all")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(all).To(MatchRegexp(`(?m)^│   └─Run/` + name + `-vpc-r1 +✓ Succeeded +[\dms]+ +8 added, 0 changed, 0 destroyed$`))
	h.Expect(all).To(MatchRegexp(`(?m)^│ ├─Condition/InfrastructureReady +✓ Ready `))
	plan, err := h.captctl("show", "plan", "cluster/"+name+"/vpc")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(plan).To(ContainSubstring("Plan: 8 to add, 0 to change, 0 to destroy."))
	plan, err = h.captctl("show", "plan", "cluster/"+name)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(plan).To(ContainSubstring("Plan: 3 to add, 0 to change, 0 to destroy."))

	h.destroy(h.cluster(name))
	var log string
	h.Eventually(followed, testTimeout).Should(Receive(&log))
	h.Expect(log).To(MatchRegexp(`(?m)^\S+Z  Run/` + name + `-r1  … Applying +[█░]+ \d/3`))
	h.Expect(log).To(MatchRegexp(`(?m)^\S+Z  CAPTControlPlane/` + name + `  ✓ Ready  Kubernetes v1.37.1 at 127.0.0.1$`))
	h.Expect(log).To(MatchRegexp(`(?m)^\S+Z  Workspace/` + name + `  … Deleting`))
	h.Expect(log).To(HaveSuffix("Cluster " + name + " was deleted\n"))
	h.Expect(log).NotTo(ContainSubstring("create it"))
}
