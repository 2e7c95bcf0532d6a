package captmachinedeployment

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// rollback puts the template of an earlier revision in place, if that is asked
// for, and clears the wish. It tells whether it did: what follows is decided on
// the template as it was written. A paused deployment waits with it. Where there
// is no such revision nothing is rolled out until somebody corrects the wish.
func (r *Reconciler) rollback(ctx context.Context, s *scope) (bool, error) {
	d := s.deployment
	if d.Spec.RollbackTo == nil || s.held() {
		return false, nil
	}
	to := *d.Spec.RollbackTo
	target := machines.FindRevision(to, s.current(), s.sets)
	if target == nil {
		// The cache may not know it yet.
		if err := r.lookLive(ctx, s); err != nil {
			return false, err
		}
		target = machines.FindRevision(to, s.current(), s.sets)
	}
	if target == nil {
		s.withheld = fault.Stall(infrav1.RevisionNotFoundReason, "%s", notFound(to, machines.Revisions(s.sets)))
		return false, nil
	}
	template := machines.TemplateOf(target)
	changed := !equality.Semantic.DeepEqual(template, d.Spec.Template)
	d.Spec.Template, d.Spec.RollbackTo = template, nil
	s.turned = changed
	s.underway = fmt.Sprintf("returning to revision %d", machines.Revision(target))
	r.tell(d, target, rolledBack(machines.Revision(target), changed))
	return true, nil
}

func notFound(to int64, there []int64) string {
	text := fmt.Sprintf("Revision %d does not exist", to)
	if to == 0 {
		text = "There is no earlier revision"
	}
	if len(there) == 0 {
		return text + ": remove spec.rollbackTo"
	}
	names := make([]string, 0, len(there))
	for _, revision := range there {
		names = append(names, fmt.Sprint(revision))
	}
	return fmt.Sprintf("%s: remove spec.rollbackTo, or set it to one of %s", text, strings.Join(names, ", "))
}
