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

func TestRemains_nameThePodsAndWhatKeepsThem(t *testing.T) {
	for name, c := range map[string]struct {
		remains Remains
		empty   bool
		want    string
	}{
		"nothing": {empty: true},
		"pods on their way": {
			remains: Remains{Leaving: []string{"b/2", "a/1"}},
			want:    "leaving: a/1, b/2",
		},
		"many pods": {
			remains: Remains{Leaving: []string{"a/1", "a/2", "a/3", "a/4", "a/5"}},
			want:    "leaving: a/1, a/2, a/3 and 2 more",
		},
		"budgets": {
			remains: Remains{
				Leaving: []string{"a/1"},
				Blocked: map[string][]string{"the budget y": {"a/3"}, "the budget x": {"a/5", "a/4"}},
			},
			want: "a/4, a/5 cannot be evicted: the budget x; a/3 cannot be evicted: the budget y; leaving: a/1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.remains.Empty()).To(Equal(c.empty))
			g.Expect(c.remains.String()).To(Equal(c.want))
		})
	}
}

func TestRefusal_tellsABudgetFromAFailure(t *testing.T) {
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2 healthy pods and has 2 currently",
	}}
	leaving := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("being terminated"))
	leaving.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	busy := apierrors.NewTooManyRequests("too many requests, try again", 1)
	twice := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "This pod has more than one PodDisruptionBudget"}}
	for name, c := range map[string]struct {
		err     error
		refused bool
		want    string
	}{
		"a budget":                      {budget, true, "The disruption budget web needs 2 healthy pods and has 2 currently"},
		"a namespace that goes":         {leaving, true, "its namespace is being deleted, which deletes the pod in its turn"},
		"a busy API server":             {busy, true, "too many requests, try again"},
		"two budgets":                   {twice, true, "This pod has more than one PodDisruptionBudget"},
		"an API server that is silent":  {errors.New("connection refused"), false, ""},
		"an eviction that is under way": {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			why, refused := refusal(c.err)
			g.Expect(refused).To(Equal(c.refused))
			g.Expect(why).To(Equal(c.want))
		})
	}
}
