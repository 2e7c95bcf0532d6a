package runnertest

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

func (w *trial) respectsTheLockOfAStranger() {
	holder := "9b1deb4d"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.backend.LeaseName(), Annotations: map[string]string{
			"app.terraform.io/lock-info": `{"ID":"9b1deb4d","Operation":"OperationTypeApply","Who":"somebody@laptop","Created":"2026-11-15T02:00:00Z"}`,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	w.Expect(w.Client.Create(w.t.Context(), lease)).To(gomega.Succeed())
	module := resource("first", "", "one", "made first")
	result := w.finish(w.request(terraform.OperationPlanAndApply, module))
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeFailed))
	w.Expect(result.Class).To(gomega.Equal(terraform.ClassLockHeld))
	w.Expect(result.Lock.Who).To(gomega.Equal("somebody@laptop"))
	w.Expect(w.witness.made("first")).To(gomega.BeZero())

	breaking := w.request(terraform.OperationPlanAndApply, module)
	breaking.BreakLock = holder
	w.succeed(breaking)
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
	w.unlocked()
}

func (w *trial) appliesTheKeptPlan() {
	module := resource("first", "", "one", "made first")
	planned := w.finish(w.request(terraform.OperationPlan, module))
	w.Expect(planned.Outcome).To(gomega.Equal(terraform.OutcomePlanned), planned.Diagnostics.Short())
	w.Expect(planned.Plan.ID).NotTo(gomega.BeEmpty())
	w.Expect(w.witness.made("first")).To(gomega.BeZero())

	missing := w.request(terraform.OperationApply, module)
	missing.Plan = &terraform.PlanRef{ID: "plan-0000000000000000"}
	w.Expect(w.finish(missing).Outcome).To(gomega.Equal(terraform.OutcomeFailed), "only a plan that is there is applied")

	apply := w.request(terraform.OperationApply, module)
	apply.Plan = &terraform.PlanRef{ID: planned.Plan.ID}
	result := w.succeed(apply)
	w.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"one"`))
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
	w.unlocked()
}

func (w *trial) refusesToDestroyWhatIsProtected() {
	w.succeed(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first")))
	replacing := w.request(terraform.OperationPlanAndApply, resource("first", "", "another", "made first"))
	replacing.Protect = []string{"terraform_data"}
	result := w.finish(replacing)
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeBlocked), result.Diagnostics.Short())
	w.Expect(result.Blocked).To(gomega.ConsistOf("terraform_data.first"))
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
	w.unlocked()

	released := w.request(terraform.OperationPlanAndApply, resource("first", "", "another", "made first"))
	released.Protect, released.Unprotected = []string{"terraform_data"}, []string{"terraform_data.first"}
	w.succeed(released)
	w.Expect(w.witness.made("first")).To(gomega.Equal(2))
}

func (w *trial) checksDriftRestoresAndDestroys() {
	module := resource("first", "", "one", "made first")
	w.succeed(w.request(terraform.OperationPlanAndApply, module))
	drift := w.finish(w.request(terraform.OperationCheckDrift, module))
	w.Expect(drift.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), drift.Diagnostics.Short())

	grown := w.succeed(w.request(terraform.OperationPlanAndApply, module, resource("second", "", "two", "made second")))
	w.Expect(grown.Snapshot).NotTo(gomega.BeEmpty(), "the state is kept before it changes")
	w.Expect(w.state().Resources).To(gomega.Equal(2))
	restore := w.request(terraform.OperationRestoreState, module)
	restore.Snapshot = strings.TrimSuffix(strings.TrimPrefix(grown.Snapshot, "capt-"), "-0")
	w.succeed(restore)
	w.Expect(w.state().Resources).To(gomega.Equal(1))

	w.succeed(w.request(terraform.OperationDestroy, module))
	w.Expect(w.state().Resources).To(gomega.BeZero())
	w.unlocked()
}

// encryption is OpenTofu's, with a passphrase and as little work as it allows.
const encryption = `
key_provider "pbkdf2" "key" {
  passphrase = "a passphrase of more than enough length"
  iterations = 200000
}
method "aes_gcm" "method" { keys = key_provider.pbkdf2.key }
state { method = method.aes_gcm.method }
plan { method = method.aes_gcm.method }
`

func (w *trial) encryptsTheState() {
	module := resource("first", "", "what nobody may read", "made first")
	for _, outcome := range []terraform.Outcome{terraform.OutcomeSucceeded, terraform.OutcomeNoChanges} {
		request := w.request(terraform.OperationPlanAndApply, module)
		request.Encryption = encryption
		result := w.finish(request)
		w.Expect(result.Outcome).To(gomega.Equal(outcome), result.Diagnostics.Short())
		w.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"what nobody may read"`))
	}
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
	secret := &corev1.Secret{}
	w.Expect(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: w.backend.StateSecretName()}, secret)).To(gomega.Succeed())
	text, err := command.DecompressState(secret.Data["tfstate"])
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(string(text)).NotTo(gomega.ContainSubstring("what nobody may read"))
	w.unlocked()
}

func (w *trial) keepsNoCredentials() {
	const hidden = "hunter2-hunter2-hunter2"
	request := w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "print CREDENTIAL", "await gate", "made first"))
	request.Env["CREDENTIAL"], request.SecretEnv = hidden, []string{"CREDENTIAL"}
	request.Files = map[string][]byte{"credentials.ini": []byte(hidden)}
	run := w.start(request)
	w.reaches(1)
	w.witness.open()
	w.Expect(w.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))

	secret := w.record(run)
	w.Expect(secret.Data).NotTo(gomega.HaveKey("request"))
	w.Expect(secret.Data).NotTo(gomega.BeEmpty())
	for key, value := range secret.Data {
		w.Expect(string(unpacked(value))).NotTo(gomega.ContainSubstring(hidden), "key %s", key)
	}
	log, err := record.Log(secret)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(string(log)).To(gomega.ContainSubstring("terraform_data.first"))
}

// unpacked is a value without its packing, if it has one.
func unpacked(value []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(value))
	if err != nil {
		return value
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return value
	}
	return text
}
