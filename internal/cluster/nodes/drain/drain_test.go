package drain

import (
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRemaining_listsPodsWithReason(t *testing.T) {
	for name, c := range map[string]struct {
		remaining Remaining
		empty     bool
		want      string
	}{
		"none": {empty: true},
		"terminating pods": {
			remaining: Remaining{Terminating: []string{"b/2", "a/1"}},
			want:      "terminating: a/1, b/2",
		},
		"many pods": {
			remaining: Remaining{Terminating: []string{"a/1", "a/2", "a/3", "a/4", "a/5"}},
			want:      "terminating: a/1, a/2, a/3 and 2 more",
		},
		"budgets": {
			remaining: Remaining{
				Terminating: []string{"a/1"},
				Blocked:     map[string][]string{"the budget y": {"a/3"}, "the budget x": {"a/5", "a/4"}},
			},
			want: "a/4, a/5 cannot be evicted: the budget x; a/3 cannot be evicted: the budget y; terminating: a/1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.remaining.Empty()).To(Equal(c.empty))
			g.Expect(c.remaining.String()).To(Equal(c.want))
		})
	}
}

func TestRefusal_distinguishesBudgetFromFailure(t *testing.T) {
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2 healthy pods and has 2 currently",
	}}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	busy := apierrors.NewTooManyRequests("too many requests, try again", 1)
	twice := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "This pod has more than one PodDisruptionBudget"}}
	for name, c := range map[string]struct {
		err     error
		refused bool
		want    string
	}{
		"budget":                  {budget, true, "The disruption budget web needs 2 healthy pods and has 2 currently"},
		"namespace being deleted": {terminating, true, "its namespace is being deleted, which will delete the pod"},
		"overloaded API server":   {busy, true, "too many requests, try again"},
		"two budgets":             {twice, true, "This pod has more than one PodDisruptionBudget"},
		"unreachable API server":  {errors.New("connection refused"), false, ""},
		"accepted eviction":       {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reason, refused := refusal(c.err)
			g.Expect(refused).To(Equal(c.refused))
			g.Expect(reason).To(Equal(c.want))
		})
	}
}
