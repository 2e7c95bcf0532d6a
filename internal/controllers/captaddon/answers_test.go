package captaddon

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// probed are clusters with the result of their probes.
type probed struct {
	clustercache.ClusterCache

	health clustercache.HealthCheckingState
}

func (p probed) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return p.health
}

// A request to a cluster that does not answer takes ten seconds, in which no other cluster is
// reconciled.
func TestCheckAnswers_asksNoClusterThatDoesNotAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		answered time.Duration
		change   func(in *installation)
		answers  bool
		want     string
	}{
		"answers":                   {answers: true},
		"never answered":            {failures: 1, answered: -1, answers: true},
		"was ready":                 {failures: 1, answered: 15 * time.Second},
		"was ready, for long":       {failures: 3, answered: 30 * time.Second, want: "WaitingForControlPlane: Workload cluster has been unreachable since 2026-11-15T11:59:30Z"},
		"was not ready":             {failures: 1, answered: 15 * time.Second, change: func(in *installation) { in.previous.Ready = nil }, want: "WaitingForControlPlane: Workload cluster does not answer"},
		"was ready, content is new": {failures: 1, answered: 15 * time.Second, change: func(in *installation) { in.rendered.Hash = "other" }, want: "WaitingForControlPlane: Workload cluster does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: newAddon("flux"), now: now}, selected("a")
			in.previous = addonsv1.ClusterAddonStatus{Name: "a", Ready: new(true), AppliedHash: in.rendered.Hash}
			if test.change != nil {
				test.change(in)
			}
			health := clustercache.HealthCheckingState{ConsecutiveFailures: test.failures, LastProbeSuccessTime: now.Add(-test.answered)}
			if test.answered < 0 {
				health.LastProbeSuccessTime = time.Time{}
			}
			answers, err := (&Reconciler{Clusters: probed{health: health}}).checkAnswers(t.Context(), s, in)
			g.Expect(answers).To(Equal(test.answers))
			g.Expect(textOf(err)).To(Equal(test.want))
		})
	}
}
