package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// result is the output and the exit code of captctl.
type result struct {
	out, err string
	code     int
}

func (w *harness) captctl(args ...string) result {
	w.t.Helper()
	return w.captctlIn(w.ctx, args...)
}

func (w *harness) captctlIn(ctx context.Context, args ...string) result {
	w.t.Helper()
	var out, errs bytes.Buffer
	root := cli.New(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	root.SetArgs(append([]string{"--kubeconfig", env.Kubeconfig, "-n", w.namespace}, args...))
	err := root.ExecuteContext(ctx)
	a := result{out: out.String(), err: errs.String(), code: cli.Code(err)}
	if err != nil {
		a.err += err.Error()
	}
	return a
}

func TestCaptctl_showsRejectsAndApprovesPlans(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	w.apply("hello", "greeting", manual, variables(map[string]string{"name": "world"}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	first := w.get("hello").Status.Plan.ID

	a := w.captctl("show", "plan", "hello", "--short")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp(`^Plan ` + first + ` of hello, created [\dms]+ ago by run hello-r1, waiting for approval\n\n  \+ terraform_data.greeting will be created\n\nPlan: 1 to add, 0 to change, 0 to destroy.\n$`))
	w.Expect(a.out).NotTo(ContainSubstring("hunter2"))

	a = w.captctl("show", "plan", "hello")
	w.Expect(a.out).To(ContainSubstring(`+ input  = "hello world"`))
	w.Expect(a.out).To(ContainSubstring(`+ secret = (sensitive value)`))
	w.Expect(a.out).NotTo(ContainSubstring("hunter2"))
	w.Expect(w.captctl("show", "plan", "hello", "-o", "markdown").out).To(ContainSubstring("```diff\n"))
	w.Expect(w.captctl("show", "plan", "hello", "-o", "json").out).To(And(ContainSubstring(`"details"`), Not(ContainSubstring("hunter2"))))
	w.Expect(w.captctl("reject", "hello", "--plan", first).code).To(Equal(0))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.PlanRejectedReason)

	a = w.captctl("reconcile", "hello", "--wait")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp("hello is waiting for approval: review the plan with captctl .*plan hello"))
	second := w.get("hello").Status.Plan.ID
	w.Expect(second).NotTo(Equal(first))

	w.Expect(w.captctl("approve", "hello", "--plan", first).code).To(Equal(1), "another plan waits now")
	a = w.captctl("approve", "hello", "--plan", second, "--wait")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(ContainSubstring("hello is applied: 1 resources in the state"))
	w.Expect(w.get("hello").Status.Outputs["greeting"].String()).To(Equal("hello world"))

	a = w.captctl("history", "hello")
	w.Expect(a.out).To(MatchRegexp(`(?m)^RUN +OPERATION +OUTCOME +AGE +DURATION +SUMMARY\nhello-r3 +Apply +Succeeded .*\nhello-r2 +Plan +Planned +.* 1 to add, 0 to change, 0 to destroy\nhello-r1 +Plan +Planned .*\n$`))
	a = w.captctl("logs", "hello", "--run", "hello-r3")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(ContainSubstring("terraform_data.greeting: Creation complete"))
	w.Expect(w.captctl("logs", "hello", "--run", "hello-r33").err).To(ContainSubstring(`did you mean "hello-r3"?`))
}

func TestCaptctl_showsWhatAnAutomaticRunChanged(t *testing.T) {
	w := newHarness(t)
	first := w.hello("greeting", greeting, variables(map[string]string{"name": "world"})).Status.Plan.ID
	w.Expect(w.captctl("show", "plan", "hello").out).To(And(ContainSubstring("+ terraform_data.greeting will be created"), ContainSubstring(", applied")), "the state has the values")

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("moon") })
	w.Eventually(func() string { return w.get("hello").Status.Outputs["greeting"].String() }, testTimeout).Should(Equal("hello moon"))
	second := w.waitReady("hello").Status.Plan.ID
	w.Expect(second).NotTo(Equal(first))

	a := w.captctl("show", "plan", "hello")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(And(ContainSubstring(`"hello world" -> "hello moon"`), ContainSubstring(", applied"), Not(ContainSubstring("hunter2"))))
	a = w.captctl("show", "plan", "hello", "--run", "hello-r1")
	w.Expect(a.out).To(And(ContainSubstring("Plan "+first+" of hello"), ContainSubstring(", applied")), a.err)

	// A run without changes does not hide what the last one changed.
	w.waitPhase(w.requestRun("hello"), infrav1.OperationSucceeded)
	w.Expect(w.captctl("show", "plan", "hello").out).To(And(ContainSubstring("No changes."), Not(ContainSubstring("applied"))))
	w.Expect(w.captctl("show", "plan", "hello", "--run", "hello-r2").out).To(ContainSubstring(`"hello world" -> "hello moon"`))
}

func TestCaptctl_followsAndCancelsRuns(t *testing.T) {
	w := newHarness(t)
	w.template("slow", slow)
	w.apply("hello", "slow", variables(map[string]string{"dir": w.dir}))
	w.Eventually(filepath.Join(w.dir, "started"), testTimeout).Should(BeAnExistingFile())
	w.Eventually(func() *infrav1.RunStatus { return w.get("hello").Status.Run }, testTimeout).ShouldNot(BeNil())

	a := w.captctl("unlock", "hello", "--yes")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(MatchRegexp(`^run hello-r1 holds the lock and is active \(process \d+ on .*\): cancel it with captctl .*cancel hello$`))

	followed := make(chan result, 1)
	go func() { followed <- w.captctl("logs", "-f", "hello") }()
	w.Eventually(func() string { return w.log("hello-r1") }, testTimeout).Should(ContainSubstring("terraform_data.slow: Creating"))
	w.Expect(followed).NotTo(Receive())
	a = w.captctl("cancel", "hello", "--yes", "--wait")
	w.Expect(a.code).To(Equal(0), a.err)
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunCanceledReason)
	var log result
	w.Eventually(followed, testTimeout).Should(Receive(&log), "the run has ended")
	w.Expect(log.code).To(Equal(0), log.err)
	w.Expect(log.out).To(Equal(w.log("hello-r1")), "every line is printed once")

	a = w.captctl("approve", "hello", "--yes")
	w.Expect(a.code).To(Equal(1))
}

func TestCaptctl_listsAndRestoresSnapshots(t *testing.T) {
	w := newHarness(t)
	w.hello("greeting", greeting, variables(map[string]string{"name": "v1"}))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("v2") })
	w.waitReady("hello")

	a := w.captctl("state", "snapshots", "hello")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp(`(?m)^capt-snapshot-hello-r2-[0-9a-f]{8}-0 +hello-r2 +[\dms]+ +\d+ +1$`))

	a = w.captctl("state", "restore", "hello", "hello-r2")
	w.Expect(a.code).To(Equal(2), "stdin is not a terminal")
	a = w.captctl("state", "restore", "hello", "hello-r2", "--yes", "--hold", "--wait")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(ContainSubstring("hello is waiting for approval"))
	w.Expect(w.get("hello").Status.Plan.Change).To(BeEquivalentTo(1), "from the restored v1 to v2")
	w.Expect(w.captctl("state", "snapshots", "hello").out).To(MatchRegexp(`(?m)^capt-snapshot-hello-r2-[0-9a-f]{8}-0 .* restored last$`))
}

func TestCaptctl_forcesTheUnlockOfAForeignLock(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	holder := "5a3b1c9e-0000-0000-0000-000000000001"
	w.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "lock-tfstate-default-hello-ws",
			Annotations: map[string]string{"app.terraform.io/lock-info": `{"ID":"x","Who":"ada@laptop","Created":"2026-01-01T00:00:00Z"}`},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.LockHeldReason)

	w.Expect(w.captctl("unlock", "hello").code).To(Equal(2))
	w.succeed("unlock", "hello", "--yes")
	w.waitReady("hello")
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
}

func TestCaptctl_checksForDriftOnRequest(t *testing.T) {
	w := prepareWithManager(t)
	w.Env = []string{"TF_CLI_CONFIG_FILE=" + w.mirror()}
	w.Expect(w.Start()).To(Succeed())
	w.hello("files", files, variables(map[string]string{"dir": w.dir}))

	a := w.captctl("drift", "hello")
	w.Expect(a.code).To(Equal(0))
	w.Expect(a.out).To(ContainSubstring("hello: not checked for drift yet"))
	a = w.captctl("drift", "hello", "--now")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp(`hello: no drift, checked [\dms]+ ago`))

	w.Expect(os.Remove(filepath.Join(w.dir, "f"))).To(Succeed())
	a = w.captctl("drift", "hello", "--now")
	w.Expect(a.code).To(Equal(2), a.err)
	w.Expect(a.out).To(ContainSubstring("  - local_file.f was deleted outside of Terraform\n"))
	w.Expect(w.file("f")).To(BeEmpty(), "the check changes nothing")
	w.Expect(objecttest.Condition(w.get("hello"), infrav1.NoDriftCondition).Reason).To(Equal(infrav1.DriftDetectedReason))
	runs := w.get("hello").Status.Runs
	w.reconsider("hello", infrav1.AppliedCondition)
	w.Expect(w.get("hello").Status.Runs).To(Equal(runs), "one request starts one check")
}
