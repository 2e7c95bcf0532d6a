package runnertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// fixture is one test with its own workspace.
type fixture struct {
	*gomega.WithT
	Harness
	t         *testing.T
	probe     *probe
	workspace terraform.WorkspaceRef
	backend   Backend
	// known is what the runs reported about the state.
	known terraform.KnownState
	count int
}

func newFixture(t *testing.T, h Harness, backend func(t *testing.T, h Harness) Backend) *fixture {
	t.Helper()
	f := &fixture{WithT: gomega.NewWithT(t), Harness: h, t: t, probe: newProbe(t, h.ListenAddress), backend: backend(t, h)}
	owner := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "conformance"},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}},
	}
	f.Expect(h.Client.Create(t.Context(), owner)).To(gomega.Succeed())
	f.workspace = terraform.WorkspaceRef{Namespace: h.Namespace, Name: owner.Name, UID: string(owner.UID)}
	return f
}

// resource returns the HCL of a resource that reports its creation to the probe.
// It depends on the resource named after, and is replaced when its input changes.
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
    interpreter = [var.probe]
    command     = "${var.server} %[4]s"
  }
}
output %[1]q { value = terraform_data.%[1]s.output }
`, name, input, dependsOn, strings.Join(steps, " "))
}

const variables = `
variable "probe" { type = string }
variable "server" { type = string }
`

// request returns the request of a new run of the workspace. It declares all
// earlier runs as gone.
func (f *fixture) request(operation terraform.Operation, module ...string) *terraform.Request {
	backend, env := f.backend.config()
	request := &terraform.Request{
		RunID: f.id(f.count + 1), Workspace: f.workspace, Operation: operation, Backend: backend, State: f.known,
		Module: terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: variables + strings.Join(module, "")},
		Variables: map[string]json.RawMessage{
			"probe": json.RawMessage(strconv.Quote(f.Probe)), "server": json.RawMessage(strconv.Quote(f.probe.address)),
		},
		Env:   map[string]string{},
		Grace: waits.Timeout,
	}
	maps.Copy(request.Env, env)
	for i := range f.count {
		request.GoneRuns = append(request.GoneRuns, f.id(i+1))
		request.GoneHolders = append(request.GoneHolders, f.holder(f.id(i+1))...)
	}
	f.count++
	return request
}

// holder returns where an earlier run may have locked the state.
func (f *fixture) holder(id string) []terraform.Holder {
	secret := &corev1.Secret{}
	if err := f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: record.SecretName(id)}, secret); err != nil {
		return nil
	}
	identity, err := record.RunIdentity(secret)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	if identity == nil {
		return nil
	}
	return []terraform.Holder{{Host: identity.Host, Since: secret.CreationTimestamp.Add(-time.Minute), Until: time.Now()}}
}

func (f *fixture) id(number int) string { return fmt.Sprintf("%s-r%d", f.workspace.Name, number) }

// store stores the request of a run, like the controller.
func (f *fixture) store(request *terraform.Request) terraform.Run {
	f.t.Helper()
	meta := record.Meta(f.workspace, record.ComponentRun, request.RunID)
	meta.Annotations = map[string]string{record.OperationAnnotation: string(request.Operation)}
	secret, err := record.NewRun(request, meta)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(f.Client.Create(f.t.Context(), secret)).To(gomega.Succeed())
	run := terraform.Run{Namespace: f.Namespace, Workspace: f.workspace.Name, WorkspaceUID: f.workspace.UID, ID: request.RunID, Digest: record.RequestDigest(secret)}
	f.t.Cleanup(func() { f.logRun(run) })
	return run
}

// start stores and starts a run.
func (f *fixture) start(request *terraform.Request) terraform.Run {
	f.t.Helper()
	run := f.store(request)
	created := run
	created.Request = request
	f.Expect(f.Runner.Start(f.t.Context(), created)).To(gomega.Succeed())
	return run
}

// finish starts a run and waits for its result.
func (f *fixture) finish(request *terraform.Request) *terraform.Result {
	f.t.Helper()
	return f.result(f.start(request))
}

// result waits for the result of a run.
func (f *fixture) result(run terraform.Run) *terraform.Result {
	f.t.Helper()
	var result *terraform.Result
	f.Eventually(func(g gomega.Gomega) {
		var err error
		result, err = record.Result(f.record(run))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(result).NotTo(gomega.BeNil(), "run %s has no result", run.ID)
	}).Should(gomega.Succeed())
	if result.State.Lineage != "" {
		f.known = terraform.KnownState{StateInfo: result.State, Unconfirmed: result.StateUncertain}
	}
	return result
}

// succeed starts a run, waits for its result and expects success.
func (f *fixture) succeed(request *terraform.Request) *terraform.Result {
	f.t.Helper()
	result := f.finish(request)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	return result
}

func (f *fixture) record(run terraform.Run) *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret)).To(gomega.Succeed())
	return secret
}

// expectLiveness waits until the run has the liveness.
func (f *fixture) expectLiveness(run terraform.Run, liveness terraform.Liveness) {
	f.t.Helper()
	f.Eventually(func() (terraform.Liveness, error) { return f.Runner.Observe(f.t.Context(), run) }).Should(gomega.Equal(liveness))
}

// expectArrivals waits until count resources have arrived at the gate.
func (f *fixture) expectArrivals(count int) {
	f.t.Helper()
	f.Eventually(f.probe.arrived).Should(gomega.Equal(count), "arrivals at the gate")
}

// state reads the stored state.
func (f *fixture) state() *statefile.State {
	f.t.Helper()
	state, err := statefile.Parse(f.backend.state())
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return state
}

// expectUnlocked expects that the state is not locked.
func (f *fixture) expectUnlocked() {
	f.t.Helper()
	f.Expect(f.backend.locked()).To(gomega.BeFalse(), "the lock must be released")
}

// logRun logs the log and the explanation of a run after a failure.
func (f *fixture) logRun(run terraform.Run) {
	if !f.t.Failed() {
		return
	}
	// The context of the test is cancelled.
	ctx := context.Background()
	secret := &corev1.Secret{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret); err != nil {
		f.t.Logf("run %s: %v", run.ID, err)
		return
	}
	log, _ := record.Log(secret)
	f.t.Logf("log of run %s:\n%s", run.ID, log)
	if result, err := record.Result(secret); err == nil && result != nil {
		f.t.Logf("result of run %s: %s %s %s", run.ID, result.Outcome, result.Class, result.Diagnostics.Short())
	}
	if explainer, ok := f.Runner.(terraform.Explainer); ok {
		explanation, err := explainer.Explain(ctx, run)
		f.t.Logf("explanation of run %s: %q %v", run.ID, explanation, err)
	}
}
