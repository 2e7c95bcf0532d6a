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

func (w *harness) captctl(args ...string) (string, error) {
	var out bytes.Buffer
	root := cli.New(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	root.SetArgs(append([]string{"--kubeconfig", w.env.Kubeconfig, "-n", w.namespace}, args...))
	err := root.ExecuteContext(w.ctx)
	return out.String(), err
}

func TestCaptctl_followsAClusterFromCreationToDeletion(t *testing.T) {
	w := newHarness(t)
	name := w.localTemplates()
	w.create(newCluster(name), newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.Version, s.WorkspaceTemplateRef.Name = "v1.37.0", "local-controlplane"
		}))
	followed := make(chan string, 1)
	go func() {
		out, _ := w.captctl("describe", "cluster", name, "--watch")
		followed <- out
	}()
	w.waitReady(name)
	tree, err := w.captctl("describe", "cluster", name)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(tree).To(MatchRegexp(`(?m)^├─CAPTCluster/` + name + ` +✓ Ready +\d+s
│ └─Workspace/` + name + `-vpc +✓ Ready +\d+s +8 resources
├─CAPTControlPlane/` + name + ` +✓ Ready +\d+s +Kubernetes v1.37.1 at 127.0.0.1
│ └─Workspace/` + name + ` +✓ Ready +\d+s +3 resources
└─Workload/API server .*
  └─Nodes +none$`))
	all, err := w.captctl("describe", "cluster", name, "--show-all")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(all).To(MatchRegexp(`(?m)^│   └─Run/` + name + `-vpc-r1 +✓ Succeeded +\d+s +8 added, 0 changed, 0 destroyed$`))
	w.Expect(all).To(MatchRegexp(`(?m)^│ ├─Condition/VPCReady +✓ Ready `))
	plan, err := w.captctl("plan", "cluster/"+name+"/vpc")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan).To(ContainSubstring("Plan: 8 to add, 0 to change, 0 to destroy."))
	plan, err = w.captctl("plan", "cluster/"+name)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan).To(ContainSubstring("Plan: 3 to add, 0 to change, 0 to destroy."))

	cluster := w.cluster(name)
	w.delete(cluster)
	w.waitDeleted(cluster)
	var log string
	w.Eventually(followed, testTimeout).Should(Receive(&log))
	w.Expect(log).To(MatchRegexp(`(?m)^\S+Z  Run/` + name + `-r1  … Applying +[█░]+ \d/3`))
	w.Expect(log).To(MatchRegexp(`(?m)^\S+Z  CAPTControlPlane/` + name + `  ✓ Ready  Kubernetes v1.37.1 at 127.0.0.1$`))
	w.Expect(log).To(MatchRegexp(`(?m)^\S+Z  Workspace/` + name + `  … Deleting`))
	w.Expect(log).To(HaveSuffix("Cluster " + name + " was deleted\n"))
	w.Expect(log).NotTo(ContainSubstring("create it"))
}
