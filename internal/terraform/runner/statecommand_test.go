package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// pulling returns a run that pulls the state twoResources.
func pulling(t *testing.T, r *Runner) *execution {
	run := scripted(t, r, `[ "$1 $2" = "state pull" ] && echo '`+twoResources+`'; exit 0`)
	run.request.Operation = terraform.OperationStateCommand
	run.request.StateCommand = &terraform.StateCommand{ID: "A1", Command: terraform.StatePull}
	return run
}

func TestStateCommand_encryptsItsOutput(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := pulling(t, r)
	key, err := record.NewKey()
	g.Expect(err).NotTo(HaveOccurred())
	run.request.Encryption, run.request.StateCommand.PublicKey = "x", key.Public()

	g.Expect(r.stateCommand(t.Context(), run)).To(Succeed())

	secret, err := r.kube.secret(t.Context(), "n", "capt-output-a1-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secret.Labels).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/move"), "it is of no use elsewhere")
	stored, err := record.Join([]*corev1.Secret{secret})
	g.Expect(err).NotTo(HaveOccurred())
	sum := sha256.Sum256(stored)
	g.Expect(run.result.OutputDigest).To(Equal(hex.EncodeToString(sum[:])))
	g.Expect(key.Open(stored)).To(MatchJSON(twoResources))
}

func TestStateCommand_refusesOutputThatIsNotSafe(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*execution)
		err    string
	}{
		"an encrypted state without a key": {func(run *execution) { run.request.Encryption = "x" }, "would be stored without encryption"},
		"a resource of an encrypted state": {func(run *execution) {
			run.request.Encryption, run.request.StateCommand.Command = "x", terraform.StateShow
		}, "would be stored without encryption"},
		"an invalid key":                   {func(run *execution) { run.request.StateCommand.PublicKey = "?" }, "public key"},
		"a Secret that another run stored": {func(*execution) {}, "the Secret capt-output-a1-0 exists"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := pulling(t, r)
			forged, err := record.Chunks("output-a1", []byte("forged"), record.LocalMeta(run.request.Workspace, record.ComponentTransfer, ""))
			g.Expect(err).NotTo(HaveOccurred())
			a.store(g, secretsPath, forged[0])
			test.change(run)
			g.Expect(r.stateCommand(t.Context(), run)).To(MatchError(ContainSubstring(test.err)))
			g.Expect(run.result.OutputDigest).To(BeEmpty())
		})
	}
}
