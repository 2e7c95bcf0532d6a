package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestClaim_succeedsOnlyOnce(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeRun(g, "hello-r2")

	claimed, err := r.secret.claim(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(claimed.Workspace.Name).To(Equal("hello"))
	identity, err := record.RunIdentity(a.secret(g, "capt-run-hello-r2"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.PID).To(Equal(os.Getpid()))
	g.Expect(identity.Alive()).To(BeTrue())

	_, err = r.secret.claim(t.Context())
	g.Expect(err).To(MatchError(errClaimed))
}

func TestFinish_leavesTheRunOfTheNextWorkspace(t *testing.T) {
	g := NewWithT(t)
	api, r := newAPI(t)
	stored := func(uid types.UID) {
		secret, err := record.NewRun(request(), metav1.ObjectMeta{Namespace: "n"})
		g.Expect(err).NotTo(HaveOccurred())
		secret.UID, secret.Name = uid, record.SecretName(r.RunID)
		api.store(g, secretsPath, secret)
	}
	stored("first")
	_, err := r.secret.claim(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	stored("next")
	result := &terraform.Result{RunID: r.RunID, Outcome: terraform.OutcomeSucceeded}
	g.Expect(r.secret.writeResult(t.Context(), result, nil)).To(MatchError(ContainSubstring("rejected")))
	g.Expect(record.Finished(api.secret(g, record.SecretName(r.RunID)))).To(BeFalse())
}

func TestClaim_rejectsARunThatHasEnded(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeRun(g, "hello-r2")
	g.Expect(r.secret.finish(t.Context(), newExecution())).To(Succeed())
	_, err := r.secret.claim(t.Context())
	g.Expect(err).To(MatchError(errClaimed))
}

func TestClaim_readsTheRunAgainAfterAConflict(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeRun(g, "hello-r2")
	// Another runner is faster.
	a.intercept = func(method, path string, _ []byte) *metav1.Status {
		if method != http.MethodPatch || a.objects[path]["data"].(map[string]any)["identity"] != nil {
			return nil
		}
		a.objects[path]["data"].(map[string]any)["identity"] = "e30="
		a.put(path, a.objects[path])
		return nil
	}
	_, err := r.secret.claim(t.Context())
	g.Expect(err).To(MatchError(errClaimed))
}

// A collector of the logs of pods keeps more than the Secret, which has the end of the log.
func TestRun_printsItsLog(t *testing.T) {
	g := NewWithT(t)
	a := &api{objects: map[string]map[string]any{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	request := request()
	request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: "# none"}
	run, err := record.NewRun(request, metav1.ObjectMeta{Namespace: "n"})
	g.Expect(err).NotTo(HaveOccurred())
	run.Name = record.SecretName("hello-r2")
	a.store(g, secretsPath, run)
	tool := filepath.Join(t.TempDir(), "tofu")
	script := "#!/bin/sh\n[ \"$1\" = version ] && echo 'OpenTofu v1.10.0' && exit 0\necho \"Error: $TOKEN of $1\" >&2\nexit 1\n"
	g.Expect(os.WriteFile(tool, []byte(script), 0o700)).To(Succeed())
	var printed bytes.Buffer
	config := Config{Namespace: "n", RunID: "hello-r2", API: &rest.Config{Host: server.URL}, Binary: tool, WorkDir: t.TempDir(), Sandbox: SandboxOff, Log: &printed}

	g.Expect(Run(t.Context(), config)).To(Succeed())

	g.Expect(printed.String()).To(ContainSubstring("Error: (sensitive value) of "))
	kube, err := newKube(&rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	secret, err := kube.secret(t.Context(), "n", record.SecretName("hello-r2"))
	g.Expect(err).NotTo(HaveOccurred())
	log, err := record.Log(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(log)).To(Equal(printed.String()))
}

func TestClaim_doesNotWaitForADeletedRun(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	_, err := r.secret.claim(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("reading the run")))
	g.Expect(a.count(http.MethodGet)).To(Equal(1))
}

func TestClaim_endsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.intercept = func(string, string, []byte) *metav1.Status {
		cancel()
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}
	_, err := r.secret.claim(ctx)
	g.Expect(err).To(MatchError(ContainSubstring("reading the run: interrupted")))
	g.Expect(a.count(http.MethodGet)).To(Equal(1))
}

// limitSize rejects patches that are larger than size.
func (a *api) limitSize(size int) {
	a.intercept = func(method, _ string, body []byte) *metav1.Status {
		if method == http.MethodPatch && len(body) > size {
			return status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		}
		return nil
	}
}

func TestFinish_truncatesAResultThatIsTooLarge(t *testing.T) {
	random := func(size int) string { // It compresses badly.
		var b strings.Builder
		for i := uint64(1); b.Len() < size; i++ {
			fmt.Fprintf(&b, "%x\n", i*0x9E3779B97F4A7C15)
		}
		return b.String()
	}
	tests := []struct {
		name    string
		log     int
		output  int
		changes int
		outcome terraform.Outcome
		wantLog string
		outputs int
	}{
		{"small", 100, 100, 200, terraform.OutcomeSucceeded, "1\n", 1},
		{"the log is too large", 200_000, 100, 200, terraform.OutcomeSucceeded, "omitted", 1},
		{"the changes are too large", 100, 100, 20_000, terraform.OutcomeSucceeded, "omitted", 1},
		{"the outputs are too large", 100, 200_000, 200, terraform.OutcomeFailed, "omitted", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			a.storeRun(g, "hello-r2")
			a.limitSize(50_000)
			run := newExecution()
			value, err := json.Marshal(random(tt.output))
			g.Expect(err).NotTo(HaveOccurred())
			run.result.Outcome, run.result.Operation, run.result.StartedAt = terraform.OutcomeSucceeded, terraform.OperationPlanAndApply, time.Now()
			run.result.Outputs = map[string]terraform.Output{"o": {Value: value}}
			run.result.State = terraform.StateInfo{Lineage: "l", Serial: 7}
			run.result.Plan = &terraform.PlanSummary{}
			for i := range tt.changes {
				run.result.Plan.Changes = append(run.result.Plan.Changes, terraform.Change{Address: fmt.Sprintf("a.b[%d]", uint64(i)*0x9E3779B97F4A7C15)})
			}
			_, _ = run.report.log.Write([]byte("1\n" + random(tt.log)))

			g.Expect(r.secret.finish(t.Context(), run)).To(Succeed())

			secret := a.secret(g, "capt-run-hello-r2")
			g.Expect(secret.Data).NotTo(HaveKey("request"))
			result, err := record.Result(secret)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Outcome).To(Equal(tt.outcome))
			g.Expect(result.Operation).To(Equal(terraform.OperationPlanAndApply))
			g.Expect(result.RunID).To(Equal("hello-r2"))
			g.Expect(result.State.Serial).To(BeEquivalentTo(7))
			g.Expect(result.FinishedAt).NotTo(BeZero())
			g.Expect(result.Outputs).To(HaveLen(tt.outputs))
			if tt.outcome == terraform.OutcomeFailed {
				g.Expect(result.Class).To(Equal(terraform.ClassTerminal), "a retry does not help")
				g.Expect(result.OutputsTooLarge).To(BeTrue())
				g.Expect(result.Diagnostics.Short()).To(ContainSubstring("Make the outputs smaller"))
			}
			g.Expect(result.Plan.Omitted + len(result.Plan.Changes)).To(Equal(tt.changes))
			log, err := record.Log(secret)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(log)).To(ContainSubstring(tt.wantLog))
		})
	}
}

func TestApplySaved_reportsAMissingPlanAsStale(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := newExecution()
	run.request.Operation, run.request.Plan = terraform.OperationApply, &terraform.PlanRef{ID: "plan-0123456789abcdef"}
	run.conclude(r.perform(t.Context(), run))
	g.Expect(run.result.Outcome).To(Equal(terraform.OutcomeFailed))
	g.Expect(run.result.StalePlan).To(BeTrue())
	g.Expect(run.result.Diagnostics.Short()).To(ContainSubstring("Plan not found"))
}

func TestApplySaved_retriesIfThePlanIsUnreadable(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.refuse("", "", unavailable)
	run := newExecution()
	run.request.Operation, run.request.Plan = terraform.OperationApply, &terraform.PlanRef{ID: "plan-0123456789abcdef"}
	run.conclude(r.perform(t.Context(), run))
	g.Expect(run.result.StalePlan).To(BeFalse())
	g.Expect(run.result.Class).To(Equal(terraform.ClassTransient))
}

func TestApplySaved_rejectsAnotherPlanAndProtectedResources(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	content := []byte("a plan")
	changes := []terraform.Change{{Address: "aws_vpc.this", Type: "aws_vpc", Action: terraform.ActionReplace}}
	id := record.PlanID(content, changes, "", "hello-r1")
	save := func(name, runID string, changes []terraform.Change) {
		chunks, err := record.Chunks(name, content, record.Meta(request().Workspace, record.ComponentPlan, runID))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.SetChanges(chunks[0], changes)).To(Succeed())
		a.store(g, secretsPath, chunks[0])
	}
	apply := func(plan string, protect ...string) *terraform.Result {
		run := newExecution()
		run.request.Operation, run.request.Plan, run.request.Protect = terraform.OperationApply, &terraform.PlanRef{ID: plan}, protect
		run.conclude(r.perform(t.Context(), run))
		return run.result
	}

	save(id, "hello-r1", changes)
	blocked := apply(id, "aws_vpc")
	g.Expect(blocked.Outcome).To(Equal(terraform.OutcomeBlocked), "protection is checked at the time of the apply")
	g.Expect(blocked.Blocked).To(ConsistOf("aws_vpc.this"))

	save("plan-0000000000000000", "hello-r1", changes)
	other := apply("plan-0000000000000000")
	g.Expect(other.Class).To(Equal(terraform.ClassTerminal))
	g.Expect(other.Diagnostics.Short()).To(ContainSubstring("Wrong plan"))

	// A user who can write Secrets removes the protected resource from the list.
	save(id, "hello-r1", nil)
	forged := apply(id, "aws_vpc")
	g.Expect(forged.Outcome).To(Equal(terraform.OutcomeFailed))
	g.Expect(forged.Diagnostics.Short()).To(ContainSubstring("Wrong plan"))
}

func TestRestore_reportsAMissingSnapshot(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	restore := func() *terraform.Result {
		run := newExecution()
		run.request.Operation, run.request.Snapshot = terraform.OperationRestoreState, "snapshot-hello-r1"
		run.conclude(r.perform(t.Context(), run))
		return run.result
	}
	missing := restore()
	g.Expect(missing.SnapshotMissing).To(BeTrue())
	g.Expect(missing.Class).To(Equal(terraform.ClassTerminal))
	g.Expect(missing.Diagnostics.Short()).To(ContainSubstring("snapshot-hello-r1"))

	a.refuse("", "", unavailable)
	unreachable := restore()
	g.Expect(unreachable.SnapshotMissing).To(BeFalse(), "an error does not prove that the snapshot is missing")
	g.Expect(unreachable.Class).To(Equal(terraform.ClassTransient))
}

func TestStore_canBeRepeated(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	run := newExecution()
	content := []byte(strings.Repeat("state ", 100))
	for range 2 {
		g.Expect(r.storage.store(t.Context(), run, "snapshot-x", record.ComponentSnapshot, content, nil)).To(Succeed())
	}
	got, first, err := r.storage.load(t.Context(), "n", "snapshot-x")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(content))
	g.Expect(record.RunID(first)).To(Equal("hello-r2"))
	g.Expect(first.Type).To(Equal(corev1.SecretTypeOpaque))
	g.Expect(a.objects).To(HaveLen(1))
}

func TestPrepare_reportsInvalidInputs(t *testing.T) {
	tests := []struct{ name, module, value, kind, message string }{
		{"an unknown variable", `variable "name" {}`, `"s3cr3t"`, "Unknown", `did you mean "name"?`},
		{"an invalid module", "variable {", `"s3cr3t"`, "", "main.tf:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			tool := filepath.Join(dir, "tofu")
			g.Expect(os.WriteFile(tool, nil, 0o600)).To(Succeed())
			r, run := newRunner(Config{}, nil), newExecution()
			r.workdir.Tool, r.workdir.Dir = &binary.Tool{Path: tool}, filepath.Join(dir, "work")
			run.request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: tt.module}
			run.request.Variables = map[string]json.RawMessage{"nam": json.RawMessage(tt.value)}
			run.conclude(r.prepare(t.Context(), run))
			g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
			g.Expect(run.result.InvalidInputs).To(Equal(tt.kind))
			g.Expect(run.result.Diagnostics.Short()).To(And(ContainSubstring(tt.message), Not(ContainSubstring("s3cr3t"))))
		})
	}
}

func TestReport_returnsWhetherTheProgressChanged(t *testing.T) {
	g := NewWithT(t)
	r := newReport()
	_, changed := r.take()
	g.Expect(changed).To(BeFalse())
	r.enter(terraform.PhasePlanning)
	progress, changed := r.take()
	g.Expect(changed).To(BeTrue())
	g.Expect(progress.Phase).To(Equal(terraform.PhasePlanning))
	_, changed = r.take()
	g.Expect(changed).To(BeFalse())
	r.enter(terraform.PhaseApplying)
	r.expect([]terraform.Change{{Address: "a.b", Action: terraform.ActionCreate}})
	progress, changed = r.take()
	g.Expect(changed).To(BeTrue())
	g.Expect(progress.Total).To(Equal(1))
}

func TestLogBuffer_dropsTheBeginning(t *testing.T) {
	g := NewWithT(t)
	var log logBuffer
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 3 * maxLogBytes / len(line) {
		n, err := log.Write(line)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(n).To(Equal(len(line)))
	}
	_, _ = log.Write([]byte("the end\n"))
	text := log.Bytes()
	g.Expect(len(text)).To(And(BeNumerically("<=", maxLogBytes+2*len(line)), BeNumerically(">=", maxLogBytes/2)))
	g.Expect(string(text)).To(HaveSuffix("the end\n"))
	text[0] = 'y'
	g.Expect(log.Bytes()[0]).NotTo(BeEquivalentTo('y'), "Bytes returns a copy")
}

func TestExecute_refusesRequestsOfALaterVersion(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	run := newExecution()
	run.request.Protocol, run.request.Manager = terraform.Protocol+1, "v9.0.0"
	run.conclude(r.execute(t.Context(), run))
	g.Expect(run.result.Outcome).To(Equal(terraform.OutcomeFailed))
	g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
	g.Expect(run.result.Diagnostics.Short()).To(And(ContainSubstring("the manager has version v9.0.0"), ContainSubstring("--runner-image")))
	g.Expect(a.count(http.MethodPatch)+a.count(http.MethodPost)).To(BeZero(), "nothing was locked or changed")
}
