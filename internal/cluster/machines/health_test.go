package machines

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestCheckHealth(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	healthy := Machine{Name: "healthy"}
	sick := func(name, problem string, since time.Duration) Machine {
		return Machine{Name: name, Problem: problem, ProblemSince: now.Add(-since)}
	}
	lost := sick("lost", infrav1.NodeGoneReason, 5*time.Minute)
	deleting, skipped := lost, lost
	deleting.Deleting, skipped.Unreplaceable = true, true
	deleting.DeletedAt = now.Add(-50 * time.Minute)
	hanging := deleting
	hanging.DeletedAt = now.Add(-time.Hour)
	number, percentage := intstr.FromInt32(2), intstr.FromString("0%")
	for name, c := range map[string]struct {
		check     *infrav1.HealthCheck
		machines  []Machine
		others    []Machine
		unhealthy int
		replace   int
		raised    bool
		next      time.Duration
	}{
		"healthy":                              {machines: []Machine{healthy, healthy, healthy}},
		"lost":                                 {machines: []Machine{healthy, healthy, lost}, unhealthy: 1, replace: 1},
		"the only machine":                     {machines: []Machine{lost}, unhealthy: 1, replace: 1, raised: true},
		"not ready for a short time":           {machines: []Machine{healthy, sick("a", infrav1.NodeNotReadyReason, time.Minute)}, next: 4 * time.Minute},
		"starting":                             {machines: []Machine{healthy, sick("a", infrav1.WaitingForNodeReason, 5*time.Minute), lost}, unhealthy: 1, replace: 1, next: 15 * time.Minute},
		"never joined":                         {machines: []Machine{healthy, sick("a", infrav1.WaitingForNodeReason, 20*time.Minute), healthy}, unhealthy: 1, replace: 1},
		"replaced instance":                    {machines: []Machine{healthy, sick("a", infrav1.ProviderIDChangedReason, 0), healthy}, unhealthy: 1, replace: 1},
		"too many":                             {machines: []Machine{healthy, lost, lost}, unhealthy: 2},
		"too many that fail one after another": {machines: []Machine{healthy, lost, sick("a", infrav1.NodeNotReadyReason, time.Minute)}, unhealthy: 1, next: 4 * time.Minute},
		"another is being replaced":            {machines: []Machine{healthy, healthy, lost, deleting}, unhealthy: 1, next: 10 * time.Minute},
		"another hangs in deletion":            {machines: []Machine{healthy, healthy, lost, hanging}, unhealthy: 1, replace: 1},
		"one of a larger deployment":           {machines: []Machine{lost}, others: []Machine{healthy, healthy}, unhealthy: 1, replace: 1},
		"too many of the deployment":           {machines: []Machine{lost}, others: []Machine{lost, healthy}, unhealthy: 1},
		"all of a deployment":                  {machines: []Machine{lost}, others: []Machine{lost}, unhealthy: 1, raised: true},
		"excluded":                             {machines: []Machine{healthy, healthy, skipped}},
		"larger limit":                         {check: &infrav1.HealthCheck{MaxUnhealthy: &number}, machines: []Machine{healthy, lost, lost}, unhealthy: 2, replace: 2},
		"limit of zero":                        {check: &infrav1.HealthCheck{MaxUnhealthy: &percentage}, machines: []Machine{healthy, healthy, lost}, unhealthy: 1},
		"longer timeout": {
			check:    &infrav1.HealthCheck{NodeUnhealthyTimeout: &metav1.Duration{Duration: time.Hour}, NodeStartupTimeout: &metav1.Duration{Duration: 2 * time.Hour}},
			machines: []Machine{lost, sick("a", infrav1.WaitingForNodeReason, 5*time.Minute)}, next: 55 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			alive := 0
			group := slices.Concat(c.machines, c.others)
			for _, m := range group {
				if !m.Deleting {
					alive++
				}
			}
			health := CheckHealth(c.check, c.machines, Group{group, int32(alive)}, now)
			if c.raised {
				g.Expect(health.Raised).To(BeTrue())
			}
			g.Expect(health.Unhealthy).To(HaveLen(c.unhealthy))
			g.Expect(health.Replace).To(HaveLen(c.replace))
			g.Expect(health.Next).To(Equal(c.next))
		})
	}
}
