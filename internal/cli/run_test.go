package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestRun_refusesWhatDoesNotFit(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	for name, args := range map[string][]string{
		"nothing is requested":                   {},
		"nothing is requested: pass --replace":   {"--hold"},
		"exclude each other":                     {"--refresh-only", "--target", "module.vpc"},
		"--plan-only and --hold exclude each":    {"--plan-only", "--hold"},
		`address "module.vpc" is invalid`:        {"--replace", "module.vpc"},
		`import "aws_vpc.main" is invalid`:       {"--import", "aws_vpc.main"},
		"stdin is not a terminal: pass --yes":    {"--target", "module.vpc"},
		"the ID of aws_vpc.main is invalid":      {"--import", "aws_vpc.main="},
		`address "-destroy" is invalid`:          {"--target=-destroy"},
		"aws_vpc.main is imported twice: see ca": {"--import", "aws_vpc.main=a", "--import", "aws_vpc.main=b"},
	} {
		a := h.run(append([]string{"run", "net"}, args...)...)
		h.Expect(a.code).To(Equal(2), "%v: %s", args, a.err)
		h.Expect(a.err).To(ContainSubstring(name), "%v", args)
	}
	h.Expect(h.operations()).To(BeEmpty())

	h.Expect(h.run("run", "net", "--refresh-only", "--yes").err).To(HavePrefix("the inputs of net are not applied"))
	h.setStatus(apply, func() { apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Waiting: new(true)} })
	h.Expect(h.run("run", "net", "--plan-only").err).To(HavePrefix("plan plan-1 of net waits for a decision"))
	h.setStatus(apply, func() { apply.Status.Conditions = condition("Paused", "True", "Paused", "") })
	h.Expect(h.run("run", "net", "--refresh-only", "--yes").err).To(Equal("net is paused: resume it first"))

	guest := workspace("guest")
	guest.Annotations = map[string]string{infrav1.HostedInAnnotation: "platform"}
	deleted := workspace("deleted")
	deleted.Finalizers = []string{"capt.appthrust.io/test"}
	h.create(guest, deleted)
	h.Expect(h.run("run", "guest", "--plan-only").err).To(ContainSubstring("guest runs in namespace platform"))
	h.Expect(env.Client.Delete(h.ctx, deleted)).To(Succeed())
	h.Expect(h.run("run", "deleted", "--plan-only").err).To(Equal("deleted is being deleted: nothing but its deletion runs"))
	h.reload(deleted)
	deleted.Finalizers = nil
	h.Expect(env.Client.Update(h.ctx, deleted)).To(Succeed())
}

func TestRun_requestsOnceAndReportsTheResult(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	a := h.run("run", "net", "--replace", `aws_subnet.a["x,y"]`, "--yes", "--wait=false", "-o", "json")
	h.Expect(a.code).To(Equal(0), a.err)
	first := h.operation(infrav1.OperationRun)
	h.Expect(first.Spec.Run.Replace).To(Equal([]infrav1.AddressString{`aws_subnet.a["x,y"]`}))
	h.Expect(a.out).To(ContainSubstring(string(first.UID)))
	h.Expect(h.run("run", "net", "--plan-only").err).To(Equal(`net has not finished an earlier request (--replace aws_subnet.a["x,y"]): wait for it, approve or reject its plan, or withdraw it with kubectl delete wso ` + first.Name))
	h.Expect(env.Client.Delete(h.ctx, first)).To(Succeed())

	r := h.start("run", "net", "--target", "module.vpc", "--yes")
	h.Eventually(h.operations).Should(HaveLen(1))
	second := h.operation(infrav1.OperationRun)
	request := &infrav1.RunRequest{ID: string(second.UID), Arguments: "--target module.vpc", RequestedBy: "alice"}
	h.setStatus(second, func() {
		second.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationFailed, Run: "net-r7"}
	})
	h.setStatus(apply, func() {
		apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Run: "net-r7", PolicyAction: infrav1.PolicyDeny, Request: request}
		apply.Status.History = []infrav1.RunRecord{{ID: "net-r7", Operation: "PlanAndApply", Outcome: "Denied", Request: request, Summary: "1 to add"}}
	})
	h.Eventually(r.code).Should(Receive(Equal(1)))
	h.Expect(r.out.String()).To(ContainSubstring("Plan plan-1 of net (--target module.vpc, requested by alice)"))
	h.Expect(r.err.String()).To(ContainSubstring("run net-r7: a policy denies the plan, so nothing was applied"))
	h.Expect(h.run("history", "net").out).To(ContainSubstring("--target module.vpc (alice): 1 to add"))
}

func TestRun_saysWhyItWasRefused(t *testing.T) {
	h := newHarness(t)
	h.create(workspace("net"))
	r := h.start("run", "net", "--plan-only", "--target", "module.vpc")
	h.Eventually(h.operations).Should(HaveLen(1))
	o := h.operation(infrav1.OperationRun)
	h.setStatus(o, func() {
		o.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationFailed, Message: "The tool has no such option"}
	})
	h.Eventually(r.code).Should(Receive(Equal(1)))
	h.Expect(r.err.String()).To(HaveSuffix("the request for net ended without a run: The tool has no such option"))
}
