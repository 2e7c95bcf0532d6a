package workspacetemplateapply

import (
	"encoding/json"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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
func newScope(name string) *scope {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Annotations: map[string]string{}}}
	s := scopeOf(&workspace{apply: apply, now: noon})
	s.policy = testPolicy()
	s.inputs = &template.Inputs{Hash: inputs, Policy: s.policy}
	s.inputs.Request.Workspace = terraform.WorkspaceRef{Namespace: "n", Name: name, UID: "u"}
	s.inputs.Request.Backend = terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "n", SecretSuffix: template.StateSuffix(name)}
	return s
}

// startRun records a new run as the controller does.
func (s *scope) startRun(g Gomega, next decision) *runRecord {
	request, err := s.request(next)
	g.Expect(err).NotTo(HaveOccurred())
	secret, err := record.NewRun(request, s.runMeta(request, infrav1.ExecutorProcess))
	g.Expect(err).NotTo(HaveOccurred())
	secret.CreationTimestamp = metav1.NewTime(s.now)
	number, err := record.RunNumber(request.RunID)
	g.Expect(err).NotTo(HaveOccurred())
	s.key = testKey
	s.seal(secret)
	run := &runRecord{id: request.RunID, workspace: s.apply.Name, workspaceUID: s.apply.UID, number: number, secret: secret, origin: originSealed}
	s.runs = slices.Insert(s.runs, 0, run)
	s.apply.Status.Runs = number
	return run
}

// endRun records the result of a run.
func (s *scope) endRun(g Gomega, run *runRecord, result terraform.Result) {
	result.RunID, result.Operation, result.StartedAt = run.id, run.operation(), run.secret.CreationTimestamp.Time
	if result.FinishedAt.IsZero() {
		result.FinishedAt = s.now
	}
	g.Expect(record.SetResult(run.secret, &result)).To(Succeed())
}

// addRun records a run that has ended. Its result is not in the status yet.
func (s *scope) addRun(g Gomega, operation terraform.Operation, result terraform.Result) *runRecord {
	run := s.startRun(g, decision{operation: operation})
	s.endRun(g, run, result)
	return run
}

// recordAll records all new results in the status, as the step history does.
func (s *scope) recordAll(g Gomega) {
	for _, run := range slices.Backward(s.runs) {
		if !s.isNew(run) {
			continue
		}
		result, err := record.Result(run.secret)
		g.Expect(err).NotTo(HaveOccurred())
		s.recordResult(run, result)
		s.recordState(run, result)
	}
}

// mergeInto applies a merge patch that only adds to a Secret.
func mergeInto(g Gomega, secret *corev1.Secret, patch []byte) {
	g.Expect(json.Unmarshal(patch, secret)).To(Succeed())
}
