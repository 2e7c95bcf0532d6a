package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
)

// limit is the duration of a wait from which it is reported, and the fix. NS and
// NAME stand for the namespace and name of the workspace.
type limit struct {
	duration time.Duration
	fix      string
}

// waitLimits are the reasons of workspaces that normally stop waiting by
// themselves.
var waitLimits = map[string]limit{
	infrav1.WaitingForApprovalReason:  {time.Hour, "captctl show plan -n NS NAME, then captctl approve -n NS NAME"},
	infrav1.QueuedReason:              {15 * time.Minute, "raise --max-runs of the manager, or maxConcurrentRuns of the provider config"},
	infrav1.RunInProgressReason:       {2 * time.Hour, "captctl logs -f -n NS NAME"},
	infrav1.LockHeldReason:            {10 * time.Minute, "captctl unlock -n NS NAME"},
	infrav1.RetryingReason:            {time.Hour, "captctl logs -n NS NAME"},
	infrav1.RunInterruptedReason:      {time.Hour, "captctl logs -n NS NAME; if the pods of its runs are killed or evicted, raise spec.runner.resources of the WorkspaceProviderConfig"},
	infrav1.WaitingForSecretReason:    {30 * time.Minute, "kubectl describe workspacetemplateapply -n NS NAME"},
	infrav1.WaitingForSourceReason:    {10 * time.Minute, "kubectl describe workspacetemplateapply -n NS NAME"},
	infrav1.WaitingForConfigMapReason: {10 * time.Minute, "kubectl describe workspacetemplateapply -n NS NAME"},
	infrav1.WaitingForWorkspaceReason: {time.Hour, "kubectl describe workspacetemplateapply -n NS NAME"},
	infrav1.ShellOpenReason:           {time.Hour, "close the shell; if it does not exist any more, captctl unlock -n NS NAME"},
}

// failureFixes are the reasons of workspaces that stay until a user acts, with the
// fix.
var failureFixes = map[string]string{
	infrav1.RunFailedReason:             "fix the error in the message, then captctl reconcile -n NS NAME",
	infrav1.RunTimedOutReason:           "raise spec.timeout, then captctl reconcile -n NS NAME",
	infrav1.RunCanceledReason:           "captctl reconcile -n NS NAME",
	infrav1.PlanRejectedReason:          "change the inputs, or captctl reconcile -n NS NAME for a new plan",
	infrav1.PolicyDeniedReason:          "captctl show plan -n NS NAME; change the inputs, or ask the owner of the policy",
	infrav1.ProtectedResourceReason:     "captctl show plan -n NS NAME; allow it with captctl approve -n NS NAME --allow-destroy ADDRESS",
	infrav1.StateTooLargeReason:         "split the module, or use another backend in its WorkspaceProviderConfig",
	infrav1.StateMissingReason:          "captctl state snapshots -n NS NAME, then captctl state restore -n NS NAME SNAPSHOT",
	infrav1.StateForeignReason:          "use a key of its own in the backend, or captctl state adopt -n NS NAME --version VERSION",
	infrav1.StateOutdatedReason:         "restore the latest version of the state, or captctl state adopt -n NS NAME --version VERSION",
	infrav1.InvalidStateCommandReason:   "restore the configuration of the WorkspaceProviderConfig in the message, or change spec.providerConfigRef back",
	infrav1.OutputsTooLargeReason:       "make the outputs smaller, or remove writeConnectionSecretToRef",
	infrav1.BackendChangedReason:        "captctl state migrate-backend -n NS NAME --to CONFIG, or change the WorkspaceProviderConfig back",
	infrav1.SnapshotNotFoundReason:      "captctl state snapshots -n NS NAME",
	infrav1.DependencyCycleReason:       "kubectl edit workspacetemplateapply -n NS NAME: remove an entry of waitForWorkspaces",
	infrav1.SecretConflictReason:        "kubectl edit workspacetemplateapply -n NS NAME: write outputs to another Secret",
	infrav1.InvalidOutputNameReason:     "rename the output in the module",
	infrav1.ModuleInvalidReason:         "fix the module: captctl validate",
	infrav1.MissingVariableReason:       "kubectl edit workspacetemplateapply -n NS NAME: set it in spec.variables",
	infrav1.UnknownVariableReason:       "kubectl edit workspacetemplateapply -n NS NAME: change spec.variables",
	infrav1.InvalidVariableReason:       "kubectl edit workspacetemplateapply -n NS NAME: change spec.variables",
	infrav1.UnresolvedPlaceholderReason: "kubectl edit workspacetemplateapply -n NS NAME: set it in spec.variables",
	infrav1.InvalidVarFileReason:        "fix the variables file",
	infrav1.ToolNotAvailableReason:      "change tool of the template, or the image of the runner, then captctl reconcile -n NS NAME",
	infrav1.NotAllowedReason:            "follow the message, or ask the administrator of the manager to allow it",
	infrav1.ReservedNameReason:          "kubectl edit workspacetemplateapply -n NS NAME: change writeConnectionSecretToRef.name",
	infrav1.UnknownOutputReason:         "kubectl edit workspacetemplateapply -n NS NAME: change spec.requiredOutputs",
}

// runs reports workspaces that failed or have waited too long.
func (d *Doctor) runs(ctx context.Context) ([]Result, error) {
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	var problems []Result
	for i := range applies {
		if problem := workspaceProblem(&applies[i], d.Now()); problem != nil {
			problems = append(problems, *problem)
		}
		if problem := stateProblem(&applies[i]); problem != nil {
			problems = append(problems, *problem)
		}
	}
	return orOK(problems, "%s, none needs action", text.Count(len(applies), "workspace")), nil
}

// maxUnobserved is the age from which a workspace with a generation that no
// manager has observed is reported.
const maxUnobserved = 5 * time.Minute

// workspaceProblem returns a result for a workspace that failed or has waited too
// long, else nil.
func workspaceProblem(apply *infrav1.WorkspaceTemplateApply, now time.Time) *Result {
	result := &Result{Object: objectName("WorkspaceTemplateApply", apply)}
	if apply.Status.ObservedGeneration < apply.Generation {
		if now.Sub(apply.CreationTimestamp.Time) < maxUnobserved {
			return nil
		}
		result.Status, result.Message = Warn, "no manager has observed its latest change"
		result.Fix = "check that a manager is running that watches namespace " + apply.Namespace
		return result
	}
	ready := conditions.Get(apply, infrav1.ReadyCondition)
	if ready == nil || !apply.DeletionTimestamp.IsZero() {
		return nil
	}
	if ready.Status == metav1.ConditionTrue {
		return driftProblem(apply, now)
	}
	// Ready is a summary: the condition that it summarises has the time.
	since := ready.LastTransitionTime
	for _, c := range apply.Status.Conditions {
		if c.Type != infrav1.ReadyCondition && c.Status != metav1.ConditionTrue && c.Reason == ready.Reason {
			since = c.LastTransitionTime
		}
	}
	result.Message = fmt.Sprintf("for %s: %s: %s", text.Age(now, since.Time), ready.Reason, ready.Message)
	if fix, failed := failureFixes[ready.Reason]; failed {
		result.Status, result.Fix = Fail, forWorkspace(fix, apply)
		return result
	}
	if limit, known := waitLimits[ready.Reason]; known && now.Sub(since.Time) > limit.duration {
		result.Status, result.Fix = Warn, forWorkspace(limit.fix, apply)
		return result
	}
	return nil
}

// stateProblem returns a result for a workspace with a state that a run could not save, else nil.
// Ready does not count it, and a deletion does not resolve it.
func stateProblem(apply *infrav1.WorkspaceTemplateApply) *Result {
	c := conditions.Get(apply, infrav1.StateSavedCondition)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	result := &Result{Status: Warn, Object: objectName("WorkspaceTemplateApply", apply), Message: c.Reason + ": " + c.Message, Fix: forWorkspace("captctl reconcile -n NS NAME", apply)}
	if c.Reason == infrav1.StateNotMergedReason {
		result.Status, result.Fix = Fail, forWorkspace("captctl state snapshots -n NS NAME, then one of the commands in the message", apply)
	}
	return result
}

// maxDriftUnknown is the duration from which failing drift checks are reported. Several in a row
// have failed then.
const maxDriftUnknown = 90 * time.Minute

// driftProblem returns a result for a workspace whose drift checks fail, else nil. Ready does
// not count them.
func driftProblem(apply *infrav1.WorkspaceTemplateApply, now time.Time) *Result {
	drift := conditions.Get(apply, infrav1.NoDriftCondition)
	if drift == nil || drift.Reason != infrav1.DriftCheckFailedReason || now.Sub(drift.LastTransitionTime.Time) < maxDriftUnknown {
		return nil
	}
	return &Result{
		Status: Warn, Object: objectName("WorkspaceTemplateApply", apply),
		Message: fmt.Sprintf("for %s: %s: %s", text.Age(now, drift.LastTransitionTime.Time), drift.Reason, drift.Message),
		Fix:     forWorkspace("fix the error in the message, then captctl drift -n NS NAME --now", apply),
	}
}

// forWorkspace replaces NS and NAME in a fix.
func forWorkspace(fix string, apply *infrav1.WorkspaceTemplateApply) string {
	return strings.ReplaceAll(fix, "NS NAME", apply.Namespace+" "+apply.Name)
}
