package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/record"
)

// stateSaved reports what runs could not save. It follows from the rescued states that exist, so
// that nothing can hide it, and it ends with them. It waits for a user if one does not continue
// the saved state, and for a run otherwise. One that a user has replaced does not count.
func stateSaved(_ context.Context, s *execution.Scope) error {
	open := slices.DeleteFunc(slices.Clone(s.Left), func(secret corev1.Secret) bool {
		_, first := record.FirstChunk(secret.Name)
		return !first || secret.Type != corev1.SecretTypeOpaque || !secret.DeletionTimestamp.IsZero() || secret.Annotations[record.SupersededAnnotation] != ""
	})
	if len(open) == 0 {
		return nil
	}
	next := &open[max(0, slices.IndexFunc(open, isNotMerged))]
	more := ""
	if others := len(open) - 1; others > 0 {
		more = fmt.Sprintf(". Other such states: %d", others)
	}
	if !isNotMerged(*next) {
		return fault.Wait(infrav1.StateRescuedReason, "Run %s could not save its state, which is in Secret %s. The next run saves it: captctl reconcile %s -n %s.%s",
			record.RunID(next), next.Name, s.Apply.Name, s.Apply.Namespace, more)
	}
	count := "an unknown number of resources"
	if n := next.Annotations[record.NotMergedAnnotation]; n != "" {
		count = n + " resources"
	}
	return fault.Wait(infrav1.StateNotMergedReason, "The state of run %s in Secret %s does not continue the saved state, and has %s that the saved state does not have. "+
		"To use it instead: captctl state restore %[4]s %[2]s -n %[5]s --hold. If they are gone, or imported: kubectl delete secret %[2]s -n %[5]s.%[6]s",
		record.RunID(next), next.Name, count, s.Apply.Name, s.Apply.Namespace, more)
}

// isNotMerged reports whether a run could not save a rescued state, and the next one cannot either.
func isNotMerged(secret corev1.Secret) bool {
	_, marked := secret.Annotations[record.NotMergedAnnotation]
	return marked
}

// hasSavedAll reports whether there is nothing to report: most workspaces never have the condition.
func hasSavedAll(s *execution.Scope) bool {
	return len(s.Left) == 0 && meta.FindStatusCondition(s.Apply.Status.Conditions, infrav1.StateSavedCondition) == nil
}
