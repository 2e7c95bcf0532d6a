package workspacetemplateapply

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// oneShotPrefix precedes the inputs and the ID of a one-shot operation in the inputs of its
// runs and of its plan.
const oneShotPrefix = "once "

// oneShotInputs returns what identifies the runs and the plan of a one-shot operation: the
// inputs that they use, the kind of the operation, and its ID.
func oneShotInputs(operation *terraform.OneShot, inputs string) string {
	return oneShotPrefix + kindOf(operation) + " " + inputs + " " + operation.ID
}

// Kinds of one-shot operations that do not apply the inputs as a whole.
const (
	kindPlanOnly    = "plan-only"
	kindTarget      = "target"
	kindRefreshOnly = "refresh-only"
)

func kindOf(operation *terraform.OneShot) string {
	switch {
	case operation.PlanOnly:
		return kindPlanOnly
	case operation.RefreshOnly:
		return kindRefreshOnly
	case len(operation.Target) > 0:
		return kindTarget
	case len(operation.Import) > 0:
		return "import"
	default:
		return "replace"
	}
}

// oneShotRun is what the inputs of a run say about its one-shot operation.
type oneShotRun struct{ kind, inputs, id string }

// parseOneShotInputs reverses oneShotInputs.
func parseOneShotInputs(text string) (oneShotRun, bool) {
	rest, found := strings.CutPrefix(text, oneShotPrefix)
	parts := strings.Split(rest, " ")
	if !found || len(parts) != 3 {
		return oneShotRun{}, false
	}
	return oneShotRun{kind: parts[0], inputs: parts[1], id: parts[2]}, true
}

// baseInputs returns the hash of the inputs that a run uses.
func (run *runRecord) baseInputs() string {
	if once, ok := parseOneShotInputs(run.inputs()); ok {
		return once.inputs
	}
	return run.inputs()
}

// oneShot returns the one-shot operation that the user requested, or what is wrong with the
// annotation. That of another workspace is ignored: this one is a copy of it, and the
// operation may have been executed before.
func oneShot(apply *infrav1.WorkspaceTemplateApply) (*terraform.OneShot, string) {
	text := apply.Annotations[infrav1.OneShotAnnotation]
	if text == "" {
		return nil, ""
	}
	operation, err := terraform.ParseOneShot(text)
	if err != nil {
		return nil, "Annotation " + infrav1.OneShotAnnotation + " is invalid: " + err.Error()
	}
	if operation.UID != string(apply.UID) {
		return nil, ""
	}
	return operation, ""
}

// decideOneShot returns the run of a one-shot operation that the user requested. It precedes
// the runs of the inputs.
func (s situation) decideOneShot() (decision, error) {
	if s.oneShot == nil {
		return noRun, nil
	}
	waits := s.plan != nil && isWaiting(s.plan) && s.plan.Inputs == oneShotInputs(s.oneShot, s.inputs)
	switch {
	case !waits || s.plan.PolicyDigest != s.policies:
		operation := terraform.OperationPlanAndApply
		if s.oneShot.PlanOnly || s.oneShot.Hold || s.policy.Approval == infrav1.ApprovalManual {
			operation = terraform.OperationPlan
		}
		return decision{operation: operation, oneShot: true}, nil
	case s.approvedPlan != s.plan.ID:
		return noRun, fault.Wait(infrav1.WaitingForApprovalReason, "Plan %s (%s) of the one-shot operation %s waits for approval: set spec.approvedPlan to %s, or reject it%s",
			s.plan.ID, planSummary(s.plan), message.Truncate(s.oneShot.Arguments(), maxQuote), s.plan.ID, approvalCause(s.plan))
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return noRun, s.protectedFault(blocked)
	}
	return decision{operation: terraform.OperationApply, plan: s.plan.ID, oneShot: true}, nil
}

// oneShotLifetime is how long after its time a one-shot operation may start. An older
// manifest of the workspace, which is applied again, may contain it.
const oneShotLifetime = 24 * time.Hour

// refusal returns why the one-shot operation that the user requested is not executed, or an
// empty string.
func (s situation) refusal() string {
	switch {
	case s.oneShot == nil:
		return ""
	case !s.oneShot.At.IsZero() && s.now.Sub(s.oneShot.At) > oneShotLifetime:
		return "The request is from " + s.oneShot.At.UTC().Format(time.RFC3339) + " and has expired"
	case s.oneShot.RefreshOnly && !s.oneShot.PlanOnly && s.inputs != s.appliedInputs:
		// Policies have not decided about these inputs, which may read other resources, in
		// another region for example. The outputs would be theirs.
		return "The inputs are not applied: apply them or change them back, then refresh the state"
	default:
		return ""
	}
}

// endOneShot ends a one-shot operation that is refused, or whose plan waits and will not be
// applied: it was rejected or withdrawn, or the inputs come first.
func (r *Reconciler) endOneShot(s *scope) {
	plan, current := s.apply.Status.Plan, s.situation()
	once, ok := oneShotRun{}, false
	if plan != nil && isWaiting(plan) {
		once, ok = parseOneShotInputs(plan.Inputs)
	}
	if !ok {
		if why := current.refusal(); why != "" {
			s.apply.Status.EndOneShot(current.oneShot.ID)
			text := fmt.Sprintf("The one-shot operation %s is not executed. %s", message.Truncate(message.OneLine(current.oneShot.Arguments()), maxQuote), why)
			oneShotEnded(corev1.EventTypeWarning, text).Record(r.Recorder, s.apply, nil)
		}
		return
	}
	why := ""
	switch pending := current.oneShot != nil && current.oneShot.ID == once.id; {
	case !pending:
		why = "The request was withdrawn"
	case current.rejectedPlan == plan.ID:
		why = "Its plan was rejected" + quoted(plan.Comment)
	case current.inputs != once.inputs:
		why = "The inputs have changed"
	case current.requested():
		why = "A run of the inputs was requested"
	default:
		return
	}
	plan.Waiting = new(false)
	s.apply.Status.EndOneShot(once.id)
	oneShotEnded(corev1.EventTypeNormal, fmt.Sprintf("Plan %s of a one-shot operation is not applied. %s", plan.ID, why)).Record(r.Recorder, s.apply, nil)
}

// runRequest returns the one-shot operation of a run for its record.
func runRequest(apply *infrav1.WorkspaceTemplateApply, operation *terraform.OneShot) *infrav1.RunRequest {
	return &infrav1.RunRequest{
		ID: operation.ID, Arguments: message.Truncate(message.OneLine(operation.Arguments()), maxSummary),
		RequestedBy: message.Truncate(message.OneLine(infrav1.RequesterOf(apply, operation.ID)), maxUserName),
	}
}

// request returns the one-shot operation of a run, or nil.
func (run *runRecord) request() *infrav1.RunRequest {
	text := run.secret.Annotations[record.OneShotAnnotation]
	if text == "" {
		return nil
	}
	request := &infrav1.RunRequest{}
	if err := json.Unmarshal([]byte(text), request); err != nil || request.ID == "" || request.Arguments == "" {
		return nil
	}
	return request
}

// recordOneShot records the result of a run of a one-shot operation. The operation is not
// repeated, whatever the outcome: the user who requested it sees why it failed. A run that
// was stopped before it changed anything did not happen.
func (s *status) recordOneShot(run *runRecord, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.apply.Status
	once, _ := parseOneShotInputs(run.inputs())
	stopped := outcome == terraform.OutcomeInterrupted && !mayHaveChanged(result)
	switch {
	case outcome == terraform.OutcomePlanned && once.kind != kindPlanOnly, stopped:
		return
	case result.StalePlan:
		// Another plan is made, which waits for approval again.
		status.Plan = nil
		return
	}
	status.EndOneShot(once.id)
	if plan := status.Plan; plan != nil && plan.Inputs == run.inputs() {
		plan.Waiting = nil
	}
	switch {
	case once.kind == kindPlanOnly:
	case outcome == terraform.OutcomeSucceeded, outcome == terraform.OutcomeNoChanges:
		s.recordOneShotSuccess(result, once)
	case once.kind == kindRefreshOnly:
		// It changes no resource, and another run would revert what drifted.
	case mayHaveChanged(result):
		status.AppliedInputs = ""
		if once.kind != kindTarget {
			status.Failure = nil
		}
		if outcome == outcomeCanceled {
			status.Failure = &infrav1.FailureStatus{
				Inputs: once.inputs, Attempts: 1, Reason: infrav1.RunCanceledReason, Message: failureMessage(run, result, outcome),
			}
		}
	}
}

// recordOneShotSuccess records what is applied after a one-shot operation.
func (s *status) recordOneShotSuccess(result *terraform.Result, once oneShotRun) {
	status := &s.apply.Status
	switch once.kind {
	case kindTarget:
		if result.Outcome == terraform.OutcomeNoChanges {
			return
		}
		// A part of the inputs is applied, and the others are still due. If their run was
		// canceled or failed for good, they stay so.
		if status.AppliedInputs != once.inputs {
			status.AppliedInputs = ""
		}
		return
	case kindRefreshOnly:
	default:
		status.AppliedInputs, status.AppliedAt, status.Failure = once.inputs, metav1.NewTime(result.FinishedAt), nil
	}
	s.endDrift()
}
