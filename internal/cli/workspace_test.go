package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// planned creates a workspace whose plan waits for approval.
func (h *harness) planned(name string, blocked ...string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := workspace(name)
	apply.Spec.Approval = infrav1.ApprovalManual
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.Plan = &infrav1.PlanStatus{
			ID: "plan-0123456789abcdef", Run: name + "-r1", CreatedAt: metav1.Now(), Waiting: new(true), Add: 1, Blocked: blocked,
			Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "create"}},
		}
	})
	return apply
}

func TestPlan_byNameAndByCluster(t *testing.T) {
	h := newHarness(t)
	_, _, vpc := h.network("demo")
	h.setStatus(vpc, func() {
		vpc.Status.Plan = &infrav1.PlanStatus{ID: "plan-0123456789abcdef", Run: "demo-net-r1", CreatedAt: metav1.Now(), Add: 1, Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "create"}}}
	})
	for _, name := range []string{"demo-net", "cluster/demo/vpc"} {
		a := h.run("show", "plan", name)
		h.Expect(a.code).To(Equal(0), a.err)
		h.Expect(a.out).To(ContainSubstring("  + aws_vpc.this will be created\n"))
		h.Expect(a.out).To(ContainSubstring("Plan: 1 to add, 0 to change, 0 to destroy.\n"))
	}
	a := h.run("show", "plan", "demo-net", "-o", "json")
	var plan map[string]any
	h.Expect(json.Unmarshal([]byte(a.out), &plan)).To(Succeed())
	h.Expect(plan).To(HaveKeyWithValue("id", "plan-0123456789abcdef"))
}

func TestApprove_approvesExactlyTheWaitingPlan(t *testing.T) {
	h := newHarness(t)
	apply := h.planned("net")

	a := h.run("approve", "net")
	h.Expect(a.code).To(Equal(2))
	h.Expect(a.out).To(ContainSubstring("aws_vpc.this will be created"), "the plan is shown first")
	h.Expect(a.err).To(Equal("stdin is not a terminal: pass --yes"))

	a = h.run("approve", "net", "--plan", "plan-ffffffffffffffff")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(Equal("plan plan-ffffffffffffffff is not waiting for approval; plan-0123456789abcdef is: review it with captctl show plan net"))

	a = h.run("approve", "net", "--yes", "--comment", strings.Repeat("x", 1025))
	h.Expect(a.err).To(ContainSubstring("spec.comment: Too long"))

	a = h.run("approve", "net", "--yes", "--comment", "Agreed")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(h.approval()).To(Equal(infrav1.WorkspaceApprovalSpec{Workspace: "net", WorkspaceUID: apply.UID, Plan: "plan-0123456789abcdef", Decision: infrav1.DecisionApprove, Comment: "Agreed"}))
}

func TestReject_isADecision(t *testing.T) {
	h := newHarness(t)
	h.planned("net")
	a := h.run("reject", "net")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(h.approval().Decision).To(Equal(infrav1.DecisionReject))
}

func TestApprove_refusesProtectedResources(t *testing.T) {
	h := newHarness(t)
	const addresses = `aws_vpc.this["a,b"],aws_eks_cluster.this`
	h.planned("net", `aws_vpc.this["a,b"]`, "aws_eks_cluster.this")

	a := h.run("approve", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("allow it with --allow-destroy '" + addresses + "'"))

	a = h.run("approve", "net", "--yes", "--allow-destroy", addresses)
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(h.approval().AllowDestroy).To(ConsistOf(`aws_vpc.this["a,b"]`, "aws_eks_cluster.this"))
}

func TestCommands_withoutPlanOrRun(t *testing.T) {
	h := newHarness(t)
	h.create(workspace("net"))
	for command, want := range map[string]string{
		"show plan": "net has no plan yet: see captctl history net", "approve": "no plan of net is waiting for approval: see captctl history net",
		"reject": "no plan of net is waiting for approval: see captctl history net", "cancel": "net has no run in progress: see captctl history net",
		"logs": "net has no runs yet: see kubectl describe wsta net",
	} {
		a := h.run(append(strings.Fields(command), "net")...)
		h.Expect(a.code).To(Equal(1), command)
		h.Expect(a.err).To(Equal(want), command)
	}
	h.Expect(h.run("state", "restore", "net", "x", "-y").err).To(Equal(`snapshot "x" not found: see captctl state snapshots net`))
	a := h.run("drift", "net", "--now")
	h.Expect(a.err).To(Equal("net was never applied, so there is nothing to compare: see captctl history net"))
}

func TestWait_failsWhilePaused(t *testing.T) {
	h := newHarness(t)
	apply := h.shellWorkspace("net")
	h.setStatus(apply, func() { apply.Status.Conditions = condition("Paused", "True", "Paused", "") })
	a := h.run("reconcile", "net", "--wait")
	h.Expect(a.code).To(Equal(1))
	const paused = "net is paused: nothing happens until you remove its annotation cluster.x-k8s.io/paused, or resume its Cluster"
	h.Expect(a.err).To(Equal(paused + "; the run was requested and may still be executed"))
	h.Expect(env.Client.Delete(h.ctx, h.operation(infrav1.OperationRun))).To(Succeed())
	h.Expect(h.run("state", "list", "net").err).To(Equal(paused))
	file := filepath.Join(h.t.TempDir(), "state")
	h.Expect(os.WriteFile(file, []byte("{}"), 0o600)).To(Succeed())
	h.Expect(h.run("state", "push", "net", file, "--yes").err).To(Equal(paused + ". To push a state before anything is applied, use approval: Manual instead of a pause"))
	h.Expect(h.operations()).To(BeEmpty(), "nothing is requested")
}

func TestCancel_asksForConfirmation(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	h.setStatus(apply, func() { apply.Status.Run = &infrav1.RunStatus{ID: "net-r1", Operation: "Plan"} })
	h.Expect(h.run("cancel", "net").code).To(Equal(2))
	h.Expect(h.run("cancel", "net", "--run", "net-r9", "-y").err).To(Equal("run net-r9 is not running; net-r1 is"))
	h.Expect(h.run("cancel", "net", "-y").code).To(Equal(0))
	h.Expect(h.operation(infrav1.OperationCancel).Spec.Cancel.Run).To(Equal("net-r1"))
}

// lock locks the state of a workspace.
func (h *harness) lock(name, holder string) {
	h.t.Helper()
	backend := terraform.Backend{SecretSuffix: template.StateSuffix(name)}
	h.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: backend.LeaseName(), Annotations: map[string]string{"app.terraform.io/lock-info": `{"ID":"x","Who":"ada@laptop","Created":"2026-01-02T03:04:05Z"}`}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
}

func TestUnlock_refusesWhileTheHolderIsActive(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	a := h.run("unlock", "net")
	h.Expect(a.code).To(Equal(0))
	h.Expect(a.out).To(Equal("The state of net is not locked\n"))

	// A run that has not started holds the lock.
	h.lock("net", "net-r1")
	request := &terraform.Request{RunID: "net-r1", Workspace: terraform.WorkspaceRef{Namespace: h.namespace, Name: "net", UID: string(apply.UID)}}
	secret, err := record.NewRun(request, record.Meta(request.Workspace, record.ComponentRun, "net-r1"))
	h.Expect(err).NotTo(HaveOccurred())
	h.create(secret)
	a = h.run("unlock", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(Equal("run net-r1 holds the lock and is active (the run has not started): cancel it with captctl cancel net"))
	h.Expect(h.operations()).To(BeEmpty(), "not even with --yes")

	// The run has ended.
	h.Expect(record.SetResult(secret, &terraform.Result{RunID: "net-r1", Outcome: "Lost"})).To(Succeed())
	h.Expect(env.Client.Update(h.ctx, secret)).To(Succeed())
	h.Expect(h.run("unlock", "net").code).To(Equal(2), "it needs confirmation")
	a = h.run("unlock", "net", "--yes", "--wait=false")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(h.operation(infrav1.OperationUnlock).Spec.Unlock.Lock).To(Equal("net-r1"))
}
