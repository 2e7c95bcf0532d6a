package reconcile

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transition is a condition whose status or reason changed.
type transition struct {
	previous, current metav1.Condition
}

// transitions returns the differences between two sets of conditions, in the
// order of the newer one. The previous value of a new condition has only its
// type.
func transitions(before, after []metav1.Condition) []transition {
	var changed []transition
	for _, current := range after {
		previous := meta.FindStatusCondition(before, current.Type)
		if previous == nil {
			previous = &metav1.Condition{Type: current.Type}
		}
		if previous.Status != current.Status || previous.Reason != current.Reason {
			changed = append(changed, transition{previous: *previous, current: current})
		}
	}
	return changed
}
