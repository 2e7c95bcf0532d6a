package captmachinedeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// rollback replaces the template with that of the revision in spec.rollbackTo and
// clears the field. It reports whether it did: the next step is then decided on
// the template as it was written. A paused deployment does not roll back. If the
// revision does not exist, nothing is rolled out until the user changes the
// field.
func (r *Reconciler) rollback(ctx context.Context, s *scope) (bool, error) {
	d := s.deployment
	if d.Spec.RollbackTo == nil || s.scaleOnly() {
		return false, nil
	}
	to := *d.Spec.RollbackTo
	target := machines.FindRevision(to, s.current(), s.revisions(to))
	if target == nil {
		// The cache may not show the set yet.
		if err := r.readLive(ctx, s); err != nil {
			return false, err
		}
		target = machines.FindRevision(to, s.current(), s.revisions(to))
	}
	if target == nil {
		s.blocked = fault.Stall(infrav1.RevisionNotFoundReason, "%s", revisionNotFound(to, machines.Revisions(s.sets)))
		return false, nil
	}
	template := machines.TemplateOf(target)
	if s.followsVersion() {
		template.Spec.Version = ""
	}
	changed := !equality.Semantic.DeepEqual(template, d.Spec.Template)
	d.Spec.Template, d.Spec.RollbackTo = template, nil
	s.rolledBack = changed
	s.waitingFor = fmt.Sprintf("rolling back to revision %d", machines.Revision(target))
	rolledBack(machines.Revision(target), changed).Record(r.Recorder, d, target)
	return true, nil
}

// revisions returns the sets that a rollback may choose. The previous revision of a
// deployment that follows the control plane is one with another template, because a
// rollback does not change the version of Kubernetes.
func (s *scope) revisions(to int64) []*infrav1.CAPTMachineSet {
	if to != 0 || !s.followsVersion() {
		return s.sets
	}
	return slices.DeleteFunc(slices.Clone(s.sets), func(set *infrav1.CAPTMachineSet) bool {
		return machines.SameTemplate(&s.deployment.Spec.Template, set)
	})
}

func revisionNotFound(to int64, existing []int64) string {
	text := fmt.Sprintf("Revision %d does not exist", to)
	if to == 0 {
		text = "There is no earlier revision"
	}
	if len(existing) == 0 {
		return text + ": remove spec.rollbackTo"
	}
	names := make([]string, 0, len(existing))
	for _, revision := range existing {
		names = append(names, fmt.Sprint(revision))
	}
	return fmt.Sprintf("%s: remove spec.rollbackTo, or set it to one of %s", text, strings.Join(names, ", "))
}
