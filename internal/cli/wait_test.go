package cli_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// withoutTemplate creates a workspace that cannot start a run.
func (h *harness) withoutTemplate(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := workspace(name)
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForTemplateReason, "WorkspaceTemplate default/greting does not exist")
	})
	return apply
}

func TestWait_endsIfTheWorkspaceCannotStart(t *testing.T) {
	h := newHarness(t)
	h.withoutTemplate("net")
	const reason = "net cannot start a run: WaitingForTemplate: WorkspaceTemplate default/greting does not exist"
	retry, list := h.start("reconcile", "net", "--wait"), h.start("state", "list", "net")
	h.Eventually(retry.code).Should(Receive(Equal(1)))
	h.Expect(retry.err.String()).To(Equal("WaitingForTemplate: WorkspaceTemplate default/greting does not exist\n" + reason + "; the run was requested and may still be executed"))
	h.Eventually(list.code).Should(Receive(Equal(1)))
	h.Expect(list.err.String()).To(HaveSuffix(reason), "a command that only reads is withdrawn")
}

// waitingForTheManager is what a wait shows before the manager has reacted.
const waitingForTheManager = "Waiting until the manager starts the run; if it does not, see captctl doctor"

func TestWait_endsWithAnInterrupt(t *testing.T) {
	h := newHarness(t)
	h.applied("net")
	running := h.start("reconcile", "net", "--wait")
	h.Eventually(running.err.String).Should(HavePrefix(waitingForTheManager))
	running.stop()
	h.Eventually(running.code).Should(Receive(Equal(130)))
	h.Expect(running.err.String()).To(HaveSuffix("\nInterrupted: the run was requested and may still be executed\n"))
}

// Nothing can use the result of an interrupted command that reads, and it must not block others.
func TestWait_withdrawsACommandThatReads(t *testing.T) {
	h := newHarness(t)
	apply := h.applied("net")
	for _, run := range []*infrav1.RunStatus{nil, {ID: "net-r2", Operation: "PlanAndApply", StartedAt: metav1.Now()}} {
		h.setStatus(apply, func() { apply.Status.Run = run })
		running := h.start("state", "list", "net")
		h.Eventually(h.operations).Should(HaveLen(1))
		h.Eventually(running.err.String).ShouldNot(BeEmpty())
		running.stop()
		h.Eventually(running.code).Should(Receive(Equal(130)))
		h.Expect(running.err.String()).To(HaveSuffix("\nInterrupted: the command is withdrawn\n"))
		h.Expect(h.operations()).To(BeEmpty())
	}
	running := h.start("state", "list", "net")
	h.Eventually(h.operations).Should(HaveLen(1))
	command := h.operation(infrav1.OperationState)
	h.setStatus(command, func() {
		command.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationRunning, Run: "net-r3"}
	})
	h.setStatus(apply, func() {
		apply.Status.Run = &infrav1.RunStatus{ID: "net-r3", Operation: "StateCommand", StartedAt: metav1.Now()}
	})
	h.Eventually(running.err.String).Should(ContainSubstring("net-r3"))
	running.stop()
	h.Eventually(running.code).Should(Receive(Equal(130)))
	h.Expect(running.err.String()).To(HaveSuffix("\nInterrupted: the command was requested and may still be executed\n"))
}

func TestWait_endsIfTheRequestIsWithdrawn(t *testing.T) {
	h := newHarness(t)
	h.applied("net")
	running := h.start("reconcile", "net", "--wait")
	h.Eventually(running.err.String).Should(HavePrefix(waitingForTheManager))
	h.Expect(env.Client.Delete(h.ctx, h.operation(infrav1.OperationRun))).To(Succeed())
	h.Eventually(running.code).Should(Receive(Equal(1)))
	h.Expect(running.err.String()).To(HaveSuffix("the operation was deleted"))
}

func TestWait_saysWhyTheRequestWasRefused(t *testing.T) {
	h := newHarness(t)
	h.applied("net")
	running := h.start("reconcile", "net", "--wait")
	h.Eventually(h.operations).Should(HaveLen(1))
	retry := h.operation(infrav1.OperationRun)
	h.setStatus(retry, func() {
		retry.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationFailed, Message: "Ask the lender"}
	})
	h.Eventually(running.code).Should(Receive(Equal(1)))
	h.Expect(running.err.String()).To(HaveSuffix("operation " + retry.Name + " of net: Failed: Ask the lender"))
}

// applied creates a workspace whose inputs are applied. No manager runs.
func (h *harness) applied(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := workspace(name)
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.AppliedAt = metav1.Now()
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "1 resource")
	})
	return apply
}

func TestWait_namesAnOpenShell(t *testing.T) {
	h := newHarness(t)
	apply := h.applied("net")
	h.setStatus(apply, func() {
		apply.Status.Shell = &infrav1.ShellStatus{ID: "shell-1", By: "ada", Host: "ada@laptop", OpenedAt: metav1.Now()}
	})
	for _, args := range [][]string{{"state", "list", "net"}, {"drift", "net", "--now"}, {"reconcile", "net", "--wait"}} {
		running := h.start(args...)
		h.Eventually(running.err.String).Should(HavePrefix("ShellOpen: a run waits until shell shell-1 of ada on ada@laptop is closed\n"))
		running.stop()
		h.Eventually(running.code).Should(Receive(Equal(130)))
	}
}

func TestWait_survivesARestartOfTheAPIServer(t *testing.T) {
	h := newHarness(t)
	apply := h.applied("net")
	server, err := url.Parse(env.Config.Host)
	h.Expect(err).NotTo(HaveOccurred())
	p := newProxy(t, server.Host)
	running := h.start("--server", "https://"+p.listener.Addr().String(), "reconcile", "net", "--wait")
	h.Eventually(running.err.String).Should(HavePrefix(waitingForTheManager))
	p.setCut(true)
	h.Eventually(running.err.String).Should(MatchRegexp(`\nManagement cluster has been unreachable since \d\d:\d\d:\d\d, retrying: \S`))
	// What happens meanwhile is not lost.
	retry := h.operation(infrav1.OperationRun)
	h.setStatus(retry, func() {
		retry.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationSucceeded, Run: "net-r2"}
	})
	h.setStatus(apply, func() {
		apply.Status.History = []infrav1.RunRecord{{ID: "net-r2", Operation: "PlanAndApply", Outcome: "NoChanges"}}
	})
	p.setCut(false)
	h.Eventually(running.code).Should(Receive(Equal(0)), running.err.String)
	h.Expect(running.out.String()).To(ContainSubstring("net is applied: 1 resource"))
}

// The status is that of before the outage, so nothing else replaces the line of the outage.
func TestWait_endsTheLineOfAnOutage(t *testing.T) {
	server, err := url.Parse(env.Config.Host)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	run := &infrav1.RunStatus{ID: "net-r2", Operation: "PlanAndApply", StartedAt: metav1.Now()}
	for name, line := range map[string]string{"requested": waitingForTheManager, "running": "Run/net-r2", "ran": "Run/net-r2"} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			apply := h.applied("net")
			p := newProxy(t, server.Host)
			if name != "requested" {
				h.setStatus(apply, func() { apply.Status.Run = run })
			}
			running := h.start("--server", "https://"+p.listener.Addr().String(), "reconcile", "net", "--wait")
			h.Eventually(running.err.String).Should(HavePrefix(line))
			if name == "ran" {
				h.setStatus(apply, func() { apply.Status.Run = nil })
			}
			p.setCut(true)
			h.Eventually(running.err.String).Should(ContainSubstring("\nManagement cluster has been unreachable since "))
			p.setCut(false)
			h.Eventually(running.err.String).Should(MatchRegexp(`\nManagement cluster [^\n]*\n` + line))
			running.stop()
			h.Eventually(running.code).Should(Receive(Equal(130)))
		})
	}
}

// The permission to break a lock is for the run of this command only.
func TestUnlock_canBeInterrupted(t *testing.T) {
	h := newHarness(t)
	h.applied("net")
	h.lock("net", "net-r1")
	running := h.start("unlock", "net", "--yes")
	h.Eventually(h.operations).Should(HaveLen(1))
	h.Expect(h.operation(infrav1.OperationUnlock).Spec.Unlock.Lock).To(Equal("net-r1"))
	h.Eventually(running.err.String).ShouldNot(BeEmpty())
	running.stop()
	h.Eventually(running.code).Should(Receive(Equal(130)))
	h.Expect(h.operations()).To(BeEmpty())
	h.Expect(running.err.String()).To(HaveSuffix("\nInterrupted: the run was requested and may still be executed\nLock net-r1 is not broken any more, unless the run has started\n"))
}

// The condition is from before the request: it must not advise to approve the plan.
func TestWait_doesNotAdviseToApprove(t *testing.T) {
	h := newHarness(t)
	apply := h.planned("net")
	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "Plan plan-0123456789abcdef waits for approval: set spec.approvedPlan to plan-0123456789abcdef")
	})
	list := h.start("state", "list", "net")
	h.Eventually(list.err.String).Should(HavePrefix(waitingForTheManager + "\n"))
	list.stop()
	h.Eventually(list.code).Should(Receive(Equal(130)))

	approve := h.start("approve", "net", "--yes", "--wait")
	h.Eventually(approve.err.String).Should(HavePrefix("Waiting until plan plan-0123456789abcdef is applied\n"))
	approve.stop()
	h.Eventually(approve.code).Should(Receive(Equal(130)))
}

func TestDrift_waitsForTheRunThatIsInProgress(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.AppliedAt, apply.Status.Run = metav1.Now(), &infrav1.RunStatus{ID: "net-r2", Operation: "PlanAndApply", StartedAt: metav1.Now()}
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionFalse, infrav1.RunInProgressReason, "")
	})
	running := h.start("drift", "net", "--now")
	h.Eventually(running.err.String).Should(ContainSubstring("net-r2"))
	h.setStatus(apply, func() {
		apply.Status.Run = nil
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "")
	})
	h.Eventually(h.operations).Should(HaveLen(1))
	check := h.operation(infrav1.OperationCheckDrift)
	h.setStatus(check, func() {
		check.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationSucceeded, Run: "net-r3"}
	})
	h.setStatus(apply, func() {
		apply.Status.Drift = &infrav1.DriftStatus{CheckedAt: metav1.Now()}
		apply.Status.History = []infrav1.RunRecord{{ID: "net-r3", Operation: "CheckDrift", Outcome: "NoChanges"}}
	})
	h.Eventually(running.code).Should(Receive(Equal(0)), running.err.String)
}

// unreachableAfter returns a client that shows a workspace, loses the connection for the given
// time, and then shows it as it was, and later as it is at the end.
func unreachableAfter(first, last *infrav1.WorkspaceTemplateApply, outage, later time.Duration) client.WithWatch {
	var lost time.Time
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(first.DeepCopy()).Build()
	return interceptor.NewClient(c, interceptor.Funcs{
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(2, false)
			switch {
			case lost.IsZero():
				lost = time.Now()
				w.Add(first.DeepCopy())
				w.Stop()
			case time.Since(lost) < outage:
				return nil, &url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
			default:
				w.Add(first.DeepCopy())
				change := time.AfterFunc(later, func() { w.Modify(last.DeepCopy()) })
				context.AfterFunc(ctx, func() {
					change.Stop()
					w.Stop()
				})
			}
			return w, nil
		},
	})
}

// What a workspace waited for may have changed while nothing could be observed, so the times
// of a wait count again after an outage.
func TestWait_countsAgainAfterAnOutage(t *testing.T) {
	applied := workspace("net")
	applied.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "1 resource")
	blocked := workspace("net")
	blocked.Status.Conditions = condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForTemplateReason, "WorkspaceTemplate default/greting does not exist")
	for name, tc := range map[string]struct {
		first  *infrav1.WorkspaceTemplateApply
		outage time.Duration
		later  time.Duration
		fails  string
	}{
		"blocked for a moment": {blocked, 0, 5 * time.Second, ""},
		"blocked before":       {blocked, time.Minute, 5 * time.Second, ""},
		"still blocked":        {blocked, time.Minute, 15 * time.Second, "net cannot start a run: WaitingForTemplate: WorkspaceTemplate default/greting does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var out bytes.Buffer
				err := cli.WaitUntil(t.Context(), unreachableAfter(tc.first, applied, tc.outage, tc.later), tc.first, &out,
					func(a *infrav1.WorkspaceTemplateApply) bool {
						return len(a.Status.Conditions) > 0 && a.Status.Conditions[0].Status == metav1.ConditionTrue
					})
				if tc.fails == "" {
					g.Expect(err).NotTo(HaveOccurred(), out.String())
				} else {
					g.Expect(err).To(MatchError(tc.fails))
				}
				if tc.outage > 0 {
					g.Expect(out.String()).To(ContainSubstring("Management cluster has been unreachable since"))
				}
			})
		})
	}
}
