package reconcile

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transition is a condition whose status or reason changed.
type transition struct {
	was, is metav1.Condition
}

// transitions lists what changed between two sets of conditions, in the order
// of the newer one. A condition that was not there before has been nothing but
// its type.
func transitions(before, after []metav1.Condition) []transition {
	var changed []transition
	for _, is := range after {
		was := meta.FindStatusCondition(before, is.Type)
		if was == nil {
			was = &metav1.Condition{Type: is.Type}
		}
		if was.Status != is.Status || was.Reason != is.Reason {
			changed = append(changed, transition{was: *was, is: is})
		}
	}
	return changed
}
