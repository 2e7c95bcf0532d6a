package doctor

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// wait is how long a workspace may wait for something before it is worth a
// word, and what ends the wait.
type wait struct {
	longest time.Duration
	mend    string
}

// waits are the reasons of workspaces that wait. %[1]s is the namespace, %[2]s
// the name, %[3]s the plan.
var waits = map[string]wait{
	infrav1.WaitingForApprovalReason:       {time.Hour, "captctl plan -n %[1]s %[2]s, then captctl approve -n %[1]s %[2]s"},
	infrav1.QueuedReason:                   {15 * time.Minute, "raise --max-concurrent-runs of the manager, or maxConcurrentRuns of the provider config"},
	infrav1.RunInProgressReason:            {2 * time.Hour, "captctl logs -f -n %[1]s %[2]s"},
	infrav1.LockHeldReason:                 {10 * time.Minute, "captctl unlock -n %[1]s %[2]s"},
	infrav1.RetryingReason:                 {time.Hour, "captctl logs -n %[1]s %[2]s"},
	infrav1.WaitingForTemplateReason:       {10 * time.Minute, "kubectl apply the template that spec.templateRef of %[2]s names"},
	infrav1.WaitingForProviderConfigReason: {10 * time.Minute, "kubectl apply the WorkspaceProviderConfig that its template names"},
	infrav1.WaitingForSecretReason:         {30 * time.Minute, "kubectl describe workspacetemplateapply -n %[1]s %[2]s"},
	infrav1.WaitingForConfigMapReason:      {10 * time.Minute, "kubectl describe workspacetemplateapply -n %[1]s %[2]s"},
	infrav1.WaitingForWorkspaceReason:      {time.Hour, "kubectl describe workspacetemplateapply -n %[1]s %[2]s"},
}

// stuck are the reasons of workspaces that wait for a person.
var stuck = map[string]string{
	infrav1.RunFailedReason:             "mend what the message says, then captctl retry -n %[1]s %[2]s",
	infrav1.RunTimedOutReason:           "raise spec.timeout, then captctl retry -n %[1]s %[2]s",
	infrav1.RunCanceledReason:           "captctl retry -n %[1]s %[2]s",
	infrav1.PlanRejectedReason:          "change the inputs, or captctl retry -n %[1]s %[2]s for a new plan",
	infrav1.ProtectedResourceReason:     "captctl plan -n %[1]s %[2]s; allow it by the annotation " + infrav1.AllowDestroyAnnotation,
	infrav1.StateTooLargeReason:         "split the module, or use another backend in its WorkspaceProviderConfig",
	infrav1.StateMissingReason:          "captctl state snapshots -n %[1]s %[2]s, then captctl state restore",
	infrav1.BackendChangedReason:        "move the state, then set the annotation " + infrav1.BackendMovedAnnotation,
	infrav1.SnapshotNotFoundReason:      "captctl state snapshots -n %[1]s %[2]s",
	infrav1.DependencyCycleReason:       "kubectl edit workspacetemplateapply -n %[1]s %[2]s: remove an entry of waitForWorkspaces",
	infrav1.SecretConflictReason:        "kubectl edit workspacetemplateapply -n %[1]s %[2]s: write outputs to another Secret",
	infrav1.InvalidOutputNameReason:     "rename the output in the module",
	infrav1.ModuleInvalidReason:         "mend the module: captctl validate",
	infrav1.MissingVariableReason:       "kubectl edit workspacetemplateapply -n %[1]s %[2]s: set it under spec.variables",
	infrav1.UnknownVariableReason:       "kubectl edit workspacetemplateapply -n %[1]s %[2]s: change spec.variables",
	infrav1.InvalidVariableReason:       "kubectl edit workspacetemplateapply -n %[1]s %[2]s: change spec.variables",
	infrav1.UnresolvedPlaceholderReason: "kubectl edit workspacetemplateapply -n %[1]s %[2]s: set it under spec.variables",
	infrav1.InvalidVarFileReason:        "mend the variables file",
	infrav1.UnknownOutputReason:         "kubectl edit workspacetemplateapply -n %[1]s %[2]s: change spec.requiredOutputs",
}

// runs looks for workspaces that failed or wait for long.
func (d *Doctor) runs(ctx context.Context) ([]Result, error) {
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	var found []Result
	for i := range applies {
		if result := d.run(&applies[i]); result != nil {
			found = append(found, *result)
		}
	}
	return orFine(found, "%d workspaces, none of which waits for a person", len(applies)), nil
}

func (d *Doctor) run(apply *infrav1.WorkspaceTemplateApply) *Result {
	result := &Result{Object: nameOf("WorkspaceTemplateApply", apply)}
	if apply.Status.ObservedGeneration < apply.Generation {
		if d.Now().Sub(apply.CreationTimestamp.Time) < 5*time.Minute {
			return nil
		}
		result.Status, result.Message = Warn, "nobody has looked at its latest change"
		result.Mend = "see whether a manager runs that watches namespace " + apply.Namespace
		return result
	}
	ready := conditions.Get(apply, infrav1.ReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue || !apply.DeletionTimestamp.IsZero() {
		return nil
	}
	// Ready sums up; the condition behind it knows since when.
	since := ready.LastTransitionTime
	for _, c := range apply.Status.Conditions {
		if c.Type != infrav1.ReadyCondition && c.Status != metav1.ConditionTrue && c.Reason == ready.Reason {
			since = c.LastTransitionTime
		}
	}
	result.Message = fmt.Sprintf("for %s: %s: %s", d.since(since), ready.Reason, ready.Message)
	if mend, isStuck := stuck[ready.Reason]; isStuck {
		result.Status, result.Mend = Fail, fill(mend, apply)
		return result
	}
	if w, known := waits[ready.Reason]; known && d.Now().Sub(since.Time) > w.longest {
		result.Status, result.Mend = Warn, fill(w.mend, apply)
		return result
	}
	return nil
}

// fill puts namespace and name into a command. The last, empty verb swallows
// what a command does not use.
func fill(command string, apply *infrav1.WorkspaceTemplateApply) string {
	return fmt.Sprintf(command+"%[3]s", apply.Namespace, apply.Name, "")
}
