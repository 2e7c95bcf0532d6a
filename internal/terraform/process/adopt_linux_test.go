package process_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/process"
	"github.com/appthrust/capt/internal/terraform/record"
)

// A module can change what its run says about its process.
func TestStop_stopsNoProcessOfOthers(t *testing.T) {
	g := NewWithT(t)
	victim := exec.Command("cat")
	input, err := victim.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	output, err := victim.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(victim.Start()).To(Succeed())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	started, err := host.ProcessStartTime(victim.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	hostname, err := os.Hostname()
	g.Expect(err).NotTo(HaveOccurred())

	owner := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}}}
	owner.Namespace, owner.Name = env.Namespace(t), "forger"
	g.Expect(env.Client.Create(t.Context(), owner)).To(Succeed())
	workspace := terraform.WorkspaceRef{Namespace: owner.Namespace, Name: owner.Name, UID: string(owner.UID)}
	secret, err := record.NewRun(&terraform.Request{RunID: "forger-r1", Workspace: workspace}, record.Meta(workspace, record.ComponentRun, "forger-r1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(env.Client.Create(t.Context(), secret)).To(Succeed())
	patch, err := record.ClaimPatch(secret.ResourceVersion, record.Identity{Host: hostname, Boot: host.BootID(), PID: victim.Process.Pid, Started: started})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(env.Client.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())

	executor := process.New(process.Options{Reader: env.Client, Client: env.Client})
	run := terraform.Run{Namespace: owner.Namespace, Workspace: owner.Name, WorkspaceUID: workspace.UID, ID: "forger-r1"}
	g.Expect(executor.Stop(t.Context(), run, true)).To(Succeed())
	g.Expect(executor.Observe(t.Context(), run)).To(Equal(terraform.LivenessGone))
	_, err = input.Write([]byte("alive\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bufio.NewReader(output).ReadString('\n')).To(Equal("alive\n"), "the process is not of the run")
}
