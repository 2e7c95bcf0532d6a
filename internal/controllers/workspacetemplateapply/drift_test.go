package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func driftOf(resources int) *infrav1.DriftStatus {
	drift := &infrav1.DriftStatus{}
	for i := range resources {
		drift.Resources = append(drift.Resources, infrav1.ResourceChange{Address: fmt.Sprintf("a.b[%d]", i)})
	}
	return drift
}

func TestDriftFault(t *testing.T) {
	tests := []struct {
		name  string
		drift *infrav1.DriftStatus
		next  time.Duration
		want  string
	}{
		{"never checked", nil, time.Hour, ""},
		{"no drift", driftOf(0), time.Hour, ""},
		{"drift, and a next check", driftOf(1), time.Hour, "1 resources differ from the state: a.b[0]"},
		{"drift, and no next check", driftOf(2), 0, "2 resources differ from the state: a.b[0], a.b[1]"},
		{"much drift", driftOf(8), 0, "8 resources differ from the state: a.b[0], a.b[1], a.b[2], a.b[3], a.b[4] and 3 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			err := driftFault(tt.drift, tt.next)
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.DriftDetectedReason))
			g.Expect(waiting.Message()).To(Equal(tt.want))
			g.Expect(waiting.RetryAfter).To(Equal(tt.next))
		})
	}
}

func TestDriftCheckMessage(t *testing.T) {
	report := template.Policy{DriftAction: infrav1.DriftReport}
	checked := &infrav1.DriftStatus{CheckedAt: metav1.NewTime(noon)}
	tests := []struct {
		name   string
		drift  *infrav1.DriftStatus
		policy template.Policy
		want   string
	}{
		{"checked", checked, report, "Last checked at 2026-01-02T12:00:00Z"},
		{"checked on request", checked, template.Policy{DriftAction: infrav1.DriftOff}, "Last checked at 2026-01-02T12:00:00Z"},
		{"off", nil, template.Policy{DriftAction: infrav1.DriftOff}, "Not checked: drift.action is Off"},
		{"unset", nil, template.Policy{}, "Not checked: drift.action is Off"},
		{"not yet", nil, report, "Not checked yet"},
		{"not yet, with an empty status", &infrav1.DriftStatus{}, template.Policy{DriftAction: infrav1.DriftRepair}, "Not checked yet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(driftCheckMessage(tt.drift, tt.policy)).To(Equal(tt.want))
		})
	}
}

func TestUntilDriftCheck(t *testing.T) {
	tests := []struct {
		name    string
		action  infrav1.DriftAction
		applied time.Duration
		running bool
		want    time.Duration
	}{
		{"off", infrav1.DriftOff, time.Minute, false, 0},
		{"later", infrav1.DriftReport, time.Minute, false, 59 * time.Minute},
		{"due", infrav1.DriftReport, 2 * time.Hour, false, 0},
		{"a run triggers the next reconcile", infrav1.DriftReport, time.Minute, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.inputs.Policy.DriftAction = tt.action
			if tt.running {
				s.startRun(g, decision{operation: terraform.OperationPlanAndApply})
			}
			s.apply.Status.AppliedAt = metav1.NewTime(noon.Add(-tt.applied))
			spread := time.Duration(float64(s.inputs.Policy.DriftInterval) * 0.1 * jitter(s.apply))
			if tt.want > 0 {
				tt.want += spread
			}
			g.Expect(untilDriftCheck(s)).To(Equal(tt.want))
		})
	}
}
