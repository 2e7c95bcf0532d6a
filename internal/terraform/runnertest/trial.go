package runnertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// often is how often something awaited is looked at.
const often = 50 * time.Millisecond

// trial is one test with a workspace of its own.
type trial struct {
	*gomega.WithT
	Harness
	t         *testing.T
	witness   *witness
	workspace terraform.WorkspaceRef
	backend   terraform.Backend
	count     int
}

func newTrial(t *testing.T, h Harness) *trial {
	t.Helper()
	w := &trial{WithT: gomega.NewWithT(t), Harness: h, t: t, witness: newWitness(t, h.Listen)}
	owner := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "trial"},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}},
	}
	w.Expect(h.Client.Create(t.Context(), owner)).To(gomega.Succeed())
	w.workspace = terraform.WorkspaceRef{Namespace: h.Namespace, Name: owner.Name, UID: string(owner.UID)}
	w.backend = terraform.Backend{Type: terraform.BackendKubernetes, Namespace: h.Namespace, SecretSuffix: "trial"}
	return w
}

// resource is HCL of a resource that reports what happens to it. It is made
// after the one it names, and made anew when its input changes.
func resource(name, after, input string, steps ...string) string {
	dependsOn := ""
	if after != "" {
		dependsOn = "depends_on = [terraform_data." + after + "]"
	}
	return fmt.Sprintf(`
resource "terraform_data" %[1]q {
  input            = %[2]q
  triggers_replace = %[2]q
  %[3]s
  provisioner "local-exec" {
    interpreter = [var.witness]
    command     = "${var.server} %[4]s"
  }
}
output %[1]q { value = terraform_data.%[1]s.output }
`, name, input, dependsOn, strings.Join(steps, " "))
}

const variables = `
variable "witness" { type = string }
variable "server" { type = string }
`

// request is for a new run of the workspace, after which all earlier ones are
// gone.
func (w *trial) request(operation terraform.Operation, module ...string) *terraform.Request {
	var gone []string
	for i := range w.count {
		gone = append(gone, w.id(i+1))
	}
	w.count++
	return &terraform.Request{
		RunID: w.id(w.count), Workspace: w.workspace, Operation: operation, GoneRuns: gone, Backend: w.backend,
		Module: terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: variables + strings.Join(module, "")},
		Env:    map[string]string{"TF_VAR_witness": w.Witness, "TF_VAR_server": w.witness.address},
		Grace:  30 * time.Second,
	}
}

func (w *trial) id(number int) string { return fmt.Sprintf("%s-r%d", w.workspace.Name, number) }

// store keeps the request of a run, as the controller does.
func (w *trial) store(request *terraform.Request) terraform.Run {
	w.t.Helper()
	meta := record.Meta(w.workspace, record.ComponentRun, request.RunID)
	meta.Annotations = map[string]string{record.OperationAnnotation: string(request.Operation)}
	secret, err := record.NewRun(request, meta)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(w.Client.Create(w.t.Context(), secret)).To(gomega.Succeed())
	run := terraform.Run{Namespace: w.Namespace, Workspace: w.workspace.Name, ID: request.RunID}
	w.t.Cleanup(func() { w.sayMore(run) })
	return run
}

// start stores and starts a run.
func (w *trial) start(request *terraform.Request) terraform.Run {
	w.t.Helper()
	run := w.store(request)
	w.Expect(w.Runner.Start(w.t.Context(), run)).To(gomega.Succeed())
	return run
}

// finish starts a run and waits for its result.
func (w *trial) finish(request *terraform.Request) *terraform.Result {
	w.t.Helper()
	return w.result(w.start(request))
}

// result waits for the result of a run.
func (w *trial) result(run terraform.Run) *terraform.Result {
	w.t.Helper()
	var result *terraform.Result
	w.Eventually(func(g gomega.Gomega) {
		var err error
		result, err = record.Result(w.record(run))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(result).NotTo(gomega.BeNil(), "run %s has no result", run.ID)
	}, w.Patience, often).Should(gomega.Succeed())
	return result
}

// succeed starts a run that is to succeed.
func (w *trial) succeed(request *terraform.Request) *terraform.Result {
	w.t.Helper()
	result := w.finish(request)
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	return result
}

func (w *trial) record(run terraform.Run) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.Expect(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret)).To(gomega.Succeed())
	return secret
}

// becomes waits until the run is observed to be so.
func (w *trial) becomes(run terraform.Run, liveness terraform.Liveness) {
	w.t.Helper()
	w.Eventually(func() (terraform.Liveness, error) { return w.Runner.Observe(w.t.Context(), run) }, w.Patience, often).Should(gomega.Equal(liveness))
}

// reaches waits until so many have come to the gate.
func (w *trial) reaches(times int) {
	w.t.Helper()
	w.Eventually(w.witness.arrived, w.Patience, often).Should(gomega.Equal(times), "somebody is to come to the gate")
}

// state reads the state past everybody.
func (w *trial) state() *command.State {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.Expect(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: w.backend.StateSecretName()}, secret)).To(gomega.Succeed())
	text, err := command.DecompressState(secret.Data["tfstate"])
	w.Expect(err).NotTo(gomega.HaveOccurred())
	state, err := command.ParseState(text)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	return state
}

// unlocked checks that nobody holds the lock of the state.
func (w *trial) unlocked() {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	w.Expect(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: w.backend.LeaseName()}, lease)).To(gomega.Succeed())
	w.Expect(lease.Spec.HolderIdentity).To(gomega.BeNil(), "the lock is to be given back")
}

// sayMore tells, after a failure, what happened to a run.
func (w *trial) sayMore(run terraform.Run) {
	if !w.t.Failed() {
		return
	}
	// The test's own context has ended.
	ctx := context.Background()
	secret := &corev1.Secret{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret); err != nil {
		w.t.Logf("run %s: %v", run.ID, err)
		return
	}
	log, _ := record.Log(secret)
	w.t.Logf("log of run %s:\n%s", run.ID, log)
	if explainer, ok := w.Runner.(terraform.Explainer); ok {
		why, err := explainer.Explain(ctx, run)
		w.t.Logf("explanation of run %s: %q %v", run.ID, why, err)
	}
}
