package cli_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// planned makes a workspace whose plan waits.
func (w *world) planned(name string, blocked ...string) *infrav1.WorkspaceTemplateApply {
	w.t.Helper()
	apply := workspace(name)
	apply.Spec.Approval = infrav1.ApprovalManual
	w.create(apply)
	w.report(apply, func() {
		apply.Status.Plan = &infrav1.PlanStatus{
			ID: "plan-0123456789abcdef", Run: name + "-r1", CreatedAt: metav1.Now(), Waiting: new(true), Add: 1, Blocked: blocked,
			Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "create"}},
		}
	})
	return apply
}

func TestPlan_isFoundByNameAndByCluster(t *testing.T) {
	w := newWorld(t)
	_, _, vpc := w.network("demo")
	w.report(vpc, func() {
		vpc.Status.Plan = &infrav1.PlanStatus{ID: "plan-0123456789abcdef", Run: "demo-net-r1", CreatedAt: metav1.Now(), Add: 1, Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "create"}}}
	})
	for _, name := range []string{"demo-net", "cluster/demo/vpc"} {
		a := w.run("plan", name)
		w.Expect(a.code).To(Equal(0), a.err)
		w.Expect(a.out).To(ContainSubstring("  + aws_vpc.this will be created\n"))
		w.Expect(a.out).To(ContainSubstring("Plan: 1 to add, 0 to change, 0 to destroy.\n"))
	}
	a := w.run("plan", "demo-net", "-o", "json")
	var plan map[string]any
	w.Expect(json.Unmarshal([]byte(a.out), &plan)).To(Succeed())
	w.Expect(plan).To(HaveKeyWithValue("id", "plan-0123456789abcdef"))

	for name, want := range map[string]string{
		"demo-nett":        `workspace "demo-nett" not found in namespace "` + w.namespace + `": did you mean "demo-net"?`,
		"cluster/demo":     "cluster demo has no control plane that CAPT manages: see captctl describe cluster demo",
		"cluster/dem":      `cluster "dem" not found in namespace "` + w.namespace + `": did you mean "demo"?`,
		"cluster/demo/eks": "cluster/demo/eks is not a workspace: use cluster/demo for the control plane, or cluster/demo/vpc for the VPC",
	} {
		a := w.run("plan", name)
		w.Expect(a.code).To(Equal(1))
		w.Expect(a.err).To(Equal(want))
	}
}

func TestApprove_namesExactlyThePlanThatWaits(t *testing.T) {
	w := newWorld(t)
	apply := w.planned("net")

	a := w.run("approve", "net")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(ContainSubstring("aws_vpc.this will be created"), "what is decided on is shown")
	w.Expect(a.err).To(Equal("nobody can be asked here: say --yes if you mean it"))

	a = w.run("approve", "net", "--plan", "plan-ffffffffffffffff")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(Equal("plan plan-ffffffffffffffff is not waiting for approval; plan-0123456789abcdef is: review it with captctl plan net"))
	w.reload(apply)
	w.Expect(apply.Spec.ApprovedPlan).To(BeEmpty())

	a = w.run("approve", "net", "--yes")
	w.Expect(a.code).To(Equal(0), a.err)
	w.reload(apply)
	w.Expect(apply.Spec.ApprovedPlan).To(Equal("plan-0123456789abcdef"))
}

func TestApprove_doesNotReleaseWhatIsProtected(t *testing.T) {
	w := newWorld(t)
	apply := w.planned("net", "aws_vpc.this")

	a := w.run("approve", "net", "--yes")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(ContainSubstring("allow it with --allow-destroy 'aws_vpc.this'"))

	a = w.run("approve", "net", "--yes", "--allow-destroy", "aws_vpc.this")
	w.Expect(a.code).To(Equal(0), a.err)
	w.reload(apply)
	w.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.AllowDestroyAnnotation, "aws_vpc.this"))
}

func TestApprove_releasesAddressesWithKeys(t *testing.T) {
	w := newWorld(t)
	apply := w.planned("net", `aws_vpc.this["a,b"]`, "aws_eks_cluster.this")

	a := w.run("approve", "net", "--yes", "--allow-destroy", `aws_vpc.this["a,b"],aws_eks_cluster.this`)
	w.Expect(a.code).To(Equal(0), a.err)
	w.reload(apply)
	w.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.AllowDestroyAnnotation, `aws_vpc.this["a,b"],aws_eks_cluster.this`))
}

func TestDecisions_needSomethingToDecideOn(t *testing.T) {
	w := newWorld(t)
	w.create(workspace("net"))
	for command, want := range map[string]string{
		"plan": "net has no plan yet: see captctl history net", "approve": "no plan of net is waiting for approval: see captctl history net",
		"reject": "no plan of net is waiting for approval: see captctl history net", "cancel": "net has no run in progress: see captctl history net",
		"logs": "net has no runs yet: see kubectl describe wsta net",
	} {
		a := w.run(command, "net")
		w.Expect(a.code).To(Equal(1), command)
		w.Expect(a.err).To(Equal(want), command)
	}
	w.Expect(w.run("state", "restore", "net", "x", "-y").err).To(Equal(`snapshot "x" not found: see captctl state snapshots net`))
	a := w.run("drift", "net", "--now")
	w.Expect(a.err).To(Equal("net is not applied, so there is nothing to compare: see captctl history net"))
}

func TestWait_doesNotWaitForAPause(t *testing.T) {
	w := newWorld(t)
	apply := workspace("net")
	w.create(apply)
	w.report(apply, func() { apply.Status.Conditions = condition("Paused", "True", "Paused", "") })
	a := w.run("retry", "net", "--wait")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(Equal("net is paused: it goes on when the pause ends"))
}

func TestCancel_isAskedForBefore(t *testing.T) {
	w := newWorld(t)
	apply := workspace("net")
	w.create(apply)
	w.report(apply, func() { apply.Status.Run = &infrav1.RunStatus{ID: "net-r1", Operation: "Plan"} })
	w.Expect(w.run("cancel", "net").code).To(Equal(2))
	w.Expect(w.run("cancel", "net", "--run", "net-r9", "-y").err).To(Equal("run net-r9 is not running; net-r1 is"))
	w.Expect(w.run("cancel", "net", "-y").code).To(Equal(0))
	w.reload(apply)
	w.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.CancelRunAnnotation, "net-r1"))
}

// lock lets somebody hold the lock of a workspace's state.
func (w *world) lock(name, holder string) {
	w.t.Helper()
	backend := terraform.Backend{SecretSuffix: template.StateSuffix(name)}
	w.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: backend.LeaseName(), Annotations: map[string]string{"app.terraform.io/lock-info": `{"ID":"x","Who":"ada@laptop","Created":"2026-01-02T03:04:05Z"}`}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
}

func TestUnlock_breaksOnlyWhatNobodyHolds(t *testing.T) {
	w := newWorld(t)
	apply := workspace("net")
	w.create(apply)
	a := w.run("unlock", "net")
	w.Expect(a.code).To(Equal(0))
	w.Expect(a.out).To(Equal("The state of net is not locked\n"))

	// A run that is about to begin holds it.
	w.lock("net", "net-r1")
	request := &terraform.Request{RunID: "net-r1", Workspace: terraform.WorkspaceRef{Namespace: w.namespace, Name: "net", UID: string(apply.UID)}}
	secret, err := record.NewRun(request, record.Meta(request.Workspace, record.ComponentRun, "net-r1"))
	w.Expect(err).NotTo(HaveOccurred())
	w.create(secret)
	a = w.run("unlock", "net", "--yes")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(Equal("run net-r1 holds the lock and lives (the run has not started): stop it with captctl cancel net"))
	w.reload(apply)
	w.Expect(apply.Annotations).NotTo(HaveKey(infrav1.ForceUnlockAnnotation), "not even by --yes")

	// Its runner is gone.
	w.Expect(record.SetResult(secret, &terraform.Result{RunID: "net-r1", Outcome: "Lost"})).To(Succeed())
	w.Expect(env.Client.Update(w.ctx, secret)).To(Succeed())
	w.Expect(w.run("unlock", "net").code).To(Equal(2), "somebody has to be asked")
	a = w.run("unlock", "net", "--yes", "--no-wait")
	w.Expect(a.code).To(Equal(0), a.err)
	w.reload(apply)
	w.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.ForceUnlockAnnotation, "net-r1"))
	w.Expect(apply.Annotations).To(HaveKey(infrav1.RunRequestedAnnotation))
}
