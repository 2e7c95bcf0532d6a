package runnertest

import (
	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func (f *fixture) respectsAForeignLock() {
	holder := "9b1deb4d"
	backend, _ := f.backend.config()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: backend.LeaseName(), Annotations: map[string]string{
			"app.terraform.io/lock-info": `{"ID":"9b1deb4d","Operation":"OperationTypeApply","Who":"user@laptop","Created":"2026-11-15T02:00:00Z"}`,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	f.Expect(f.Client.Create(f.t.Context(), lease)).To(gomega.Succeed())
	module := resource("first", "", "one", "created first")
	result := f.finish(f.request(terraform.OperationPlanAndApply, module))
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeFailed))
	f.Expect(result.Class).To(gomega.Equal(terraform.ClassLockHeld))
	f.Expect(result.Lock.Who).To(gomega.Equal("user@laptop"))
	f.Expect(f.probe.created("first")).To(gomega.BeZero())

	breaking := f.request(terraform.OperationPlanAndApply, module)
	breaking.BreakLock = holder
	f.succeed(breaking)
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	f.expectUnlocked()
}

func (f *fixture) appliesTheStoredPlan() {
	module := resource("first", "", "one", "created first")
	planned := f.finish(f.request(terraform.OperationPlan, module))
	f.Expect(planned.Outcome).To(gomega.Equal(terraform.OutcomePlanned), planned.Diagnostics.Short())
	f.Expect(planned.Plan.ID).NotTo(gomega.BeEmpty())
	f.Expect(f.probe.created("first")).To(gomega.BeZero())

	missing := f.request(terraform.OperationApply, module)
	missing.Plan = &terraform.PlanRef{ID: "plan-0000000000000000"}
	f.Expect(f.finish(missing).Outcome).To(gomega.Equal(terraform.OutcomeFailed), "a missing plan cannot be applied")

	apply := f.request(terraform.OperationApply, module)
	apply.Plan = &terraform.PlanRef{ID: planned.Plan.ID}
	result := f.succeed(apply)
	f.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"one"`))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	f.expectUnlocked()
}

func (f *fixture) blocksTheDestructionOfProtectedResources() {
	f.succeed(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	replacing := f.request(terraform.OperationPlanAndApply, resource("first", "", "another", "created first"))
	replacing.Protect = []string{"terraform_data"}
	result := f.finish(replacing)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeBlocked), result.Diagnostics.Short())
	f.Expect(result.Blocked).To(gomega.ConsistOf("terraform_data.first"))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	f.expectUnlocked()

	allowed := f.request(terraform.OperationPlanAndApply, resource("first", "", "another", "created first"))
	allowed.Protect, allowed.Unprotected = []string{"terraform_data"}, []string{"terraform_data.first"}
	f.succeed(allowed)
	f.Expect(f.probe.created("first")).To(gomega.Equal(2))
}

func (f *fixture) obeysPolicies() {
	policies := func(action terraform.PolicyAction) *terraform.Policies {
		return &terraform.Policies{Policies: []terraform.Policy{{Kind: "WorkspacePolicy", Name: "keep", Rules: []terraform.PolicyRule{{
			Name: "replace", Match: terraform.MatchEachChange, Action: action, Expression: `"delete" in resource.actions && resource.before.input == "one"`,
			MessageExpression: `resource.address + " has the input " + resource.before.input`,
		}}}}}
	}
	f.succeed(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	another := resource("first", "", "another", "created first")
	denied := f.request(terraform.OperationPlanAndApply, another)
	denied.Policies = policies(terraform.PolicyDeny)
	result := f.finish(denied)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeDenied), result.Diagnostics.Short())
	f.Expect(result.Violations).To(gomega.HaveLen(1))
	f.Expect(result.Violations[0].Message).To(gomega.Equal("terraform_data.first has the input one"))

	held := f.request(terraform.OperationPlanAndApply, another)
	held.Policies = policies(terraform.PolicyRequireApproval)
	planned := f.finish(held)
	f.Expect(planned.Outcome).To(gomega.Equal(terraform.OutcomePlanned), planned.Diagnostics.Short())
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))

	// What is denied now is not applied, whatever was approved.
	late := f.request(terraform.OperationApply, another)
	late.Plan, late.Policies = &terraform.PlanRef{ID: planned.Plan.ID}, policies(terraform.PolicyDeny)
	f.Expect(f.finish(late).Outcome).To(gomega.Equal(terraform.OutcomeDenied))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	destroy := f.request(terraform.OperationDestroy, another)
	destroy.Policies = policies(terraform.PolicyDeny)
	f.Expect(f.finish(destroy).Outcome).To(gomega.Equal(terraform.OutcomeDenied))
	f.Expect(f.state().Resources).To(gomega.Equal(1))

	approved := f.request(terraform.OperationApply, another)
	approved.Plan, approved.Policies = &terraform.PlanRef{ID: planned.Plan.ID}, policies(terraform.PolicyRequireApproval)
	f.succeed(approved)
	f.Expect(f.probe.created("first")).To(gomega.Equal(2))
	f.expectUnlocked()
}

func (f *fixture) checksDriftRestoresAndDestroys() {
	module := resource("first", "", "one", "created first")
	f.succeed(f.request(terraform.OperationPlanAndApply, module))
	drift := f.finish(f.request(terraform.OperationCheckDrift, module))
	f.Expect(drift.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), drift.Diagnostics.Short())

	extended := f.succeed(f.request(terraform.OperationPlanAndApply, module, resource("second", "", "two", "created second")))
	f.Expect(extended.Snapshot).NotTo(gomega.BeEmpty(), "a snapshot is stored before the state changes")
	f.Expect(f.state().Resources).To(gomega.Equal(2))
	restore := f.request(terraform.OperationRestoreState, module)
	restore.Snapshot = snapshotOf(extended)
	f.succeed(restore)
	f.Expect(f.state().Resources).To(gomega.Equal(1))

	f.succeed(f.request(terraform.OperationDestroy, module))
	f.Expect(f.state().Resources).To(gomega.BeZero())
	f.expectUnlocked()
}

const encryption = `
key_provider "pbkdf2" "key" {
  passphrase = "correct horse battery staple"
  iterations = 200000 # The fewest that OpenTofu accepts.
}
method "aes_gcm" "method" { keys = key_provider.pbkdf2.key }
state { method = method.aes_gcm.method }
plan { method = method.aes_gcm.method }
`

func (f *fixture) encryptsTheState() {
	module := resource("first", "", "a confidential value", "created first")
	for _, outcome := range []terraform.Outcome{terraform.OutcomeSucceeded, terraform.OutcomeNoChanges} {
		request := f.request(terraform.OperationPlanAndApply, module)
		request.Encryption = encryption // The image of the runner has no shell.
		result := f.finish(request)
		f.Expect(result.Outcome).To(gomega.Equal(outcome), result.Diagnostics.Short())
		f.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"a confidential value"`))
	}
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	f.Expect(string(f.backend.state())).To(gomega.ContainSubstring("encrypted_data"))
	f.Expect(string(f.backend.state())).NotTo(gomega.ContainSubstring("a confidential value"))
	f.expectUnlocked()
}

func (f *fixture) storesNoCredentials() {
	const credential = "hunter2-hunter2-hunter2"
	request := f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "print CREDENTIAL", "wait gate", "created first"))
	request.Env["CREDENTIAL"], request.SecretEnv = credential, []string{"CREDENTIAL"}
	request.Files = map[string][]byte{"credentials.ini": []byte(credential)}
	run := f.start(request)
	f.expectArrivals(1)
	f.probe.open()
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))

	secret := f.record(run)
	f.Expect(secret.Data).NotTo(gomega.HaveKey("request"))
	f.Expect(secret.Data).NotTo(gomega.BeEmpty())
	for key, value := range secret.Data {
		f.Expect(string(decompressed(value))).NotTo(gomega.ContainSubstring(credential), "key %s", key)
	}
	log, err := record.Log(secret)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(string(log)).To(gomega.ContainSubstring("terraform_data.first"))
}

// decompressed returns a value without its compression, if any.
func decompressed(value []byte) []byte {
	if text, err := record.Decompress(value); err == nil {
		return text
	}
	return value
}
