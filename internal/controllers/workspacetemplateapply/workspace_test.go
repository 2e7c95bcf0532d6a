package workspacetemplateapply

import (
	"encoding/json"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const inputs = "0123456789abcdef"

func testPolicy() template.Policy {
	return template.Policy{
		Approval: infrav1.ApprovalAuto, DriftAction: infrav1.DriftOff, DriftInterval: time.Hour,
		MinBackoff: 15 * time.Second, MaxBackoff: 10 * time.Minute,
	}
}

// newScope returns the scope of a new workspace.
func newScope(name string) *execution.Scope {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Annotations: map[string]string{}}}
	s := execution.NewScope(&runs.Workspace{Apply: apply, Now: noon})
	s.Policy = testPolicy()
	s.Inputs = &template.Inputs{Hash: inputs, Policy: s.Policy}
	s.Inputs.Request.Workspace = terraform.WorkspaceRef{Namespace: "n", Name: name, UID: "u"}
	s.Inputs.Request.Backend = terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "n", SecretSuffix: template.StateSuffix(name)}
	return s
}

// startRun records a new run as the controller does.
func startRun(g Gomega, s *execution.Scope, next decision.Decision) *runs.Run {
	request := requestOf(g, s, next)
	secret, err := record.NewRun(request, s.RunMeta(request, infrav1.ExecutorProcess))
	g.Expect(err).NotTo(HaveOccurred())
	secret.CreationTimestamp = metav1.NewTime(s.Now)
	number, err := record.RunNumber(request.RunID)
	g.Expect(err).NotTo(HaveOccurred())
	s.Key = testKey
	s.Seal(secret)
	run := &runs.Run{ID: request.RunID, Workspace: s.Apply.Name, WorkspaceUID: s.Apply.UID, Number: number, Secret: secret, Origin: runs.OriginSealed}
	s.Runs = slices.Insert(s.Runs, 0, run)
	s.Apply.Status.Runs = number
	return run
}

// endRun records the result of a run.
func endRun(g Gomega, s *execution.Scope, run *runs.Run, result terraform.Result) {
	result.RunID, result.Operation, result.StartedAt = run.ID, run.Operation(), run.Secret.CreationTimestamp.Time
	if result.FinishedAt.IsZero() {
		result.FinishedAt = s.Now
	}
	g.Expect(record.SetResult(run.Secret, &result)).To(Succeed())
}

// addRun records a run that has ended. Its result is not in the status yet.
func addRun(g Gomega, s *execution.Scope, operation terraform.Operation, result terraform.Result) *runs.Run {
	run := startRun(g, s, decision.Decision{Operation: operation})
	endRun(g, s, run, result)
	return run
}

// recordAll records all new results in the status, and how far the operations are, as the steps
// history and requests do.
func recordAll(g Gomega, s *execution.Scope) {
	for _, run := range slices.Backward(s.Runs) {
		if !s.IsNew(run) {
			continue
		}
		result, err := record.Result(run.Secret)
		g.Expect(err).NotTo(HaveOccurred())
		s.RecordResult(run, result)
		s.RecordState(run, result)
	}
	for _, o := range s.Requests.Operations {
		if !o.Ended() {
			o.Status = history.OperationStatus(s.Workspace, o)
		}
	}
}

// recordRun records a run that has ended, and its result in the status.
func recordRun(g Gomega, s *execution.Scope, operation terraform.Operation, result terraform.Result) {
	addRun(g, s, operation, result)
	recordAll(g, s)
}

// requestOf returns the request of the next run.
func requestOf(g Gomega, s *execution.Scope, next decision.Decision) *terraform.Request {
	request, err := s.Request(next)
	g.Expect(err).NotTo(HaveOccurred())
	return request
}

// mergeInto applies a merge patch that only adds to a Secret.
func mergeInto(g Gomega, secret *corev1.Secret, patch []byte) {
	g.Expect(json.Unmarshal(patch, secret)).To(Succeed())
}
