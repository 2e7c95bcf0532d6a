package template_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestPolicy_workspaceOverridesTemplateOverridesDefaults(t *testing.T) {
	defaults := template.Policy{
		Approval: infrav1.ApprovalAuto, DestroyApproval: infrav1.ApprovalAuto, DriftAction: infrav1.DriftOff, DriftInterval: time.Hour,
		MinBackoff: 15 * time.Second, MaxBackoff: 10 * time.Minute,
	}
	with := func(change func(*template.Policy)) template.Policy {
		p := defaults
		change(&p)
		return p
	}
	ofTemplate := templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.Approval = infrav1.ApprovalManual
		w.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftReport, Interval: duration(2 * time.Hour)}
		w.Retry = &infrav1.RetryPolicy{Limit: ptr.To[int32](5), MinBackoff: duration(time.Minute), MaxBackoff: duration(2 * time.Minute)}
	})
	merged := with(func(p *template.Policy) {
		p.Approval, p.DriftAction, p.DriftInterval = infrav1.ApprovalManual, infrav1.DriftReport, 2*time.Hour
		p.RetryLimit, p.MinBackoff, p.MaxBackoff = ptr.To[int32](5), time.Minute, 2*time.Minute
	})
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    template.Policy
	}{
		{"defaults", nil, defaults},
		{"the template", []func(*template.Sources){ofTemplate}, merged},
		{"the workspace overrides all settings but approval", []func(*template.Sources){ofTemplate, applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.Approval = infrav1.ApprovalAuto
			a.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftOff, Interval: duration(3 * time.Hour)}
			a.Retry = &infrav1.RetryPolicy{Limit: ptr.To[int32](0), MinBackoff: duration(time.Second), MaxBackoff: duration(3 * time.Second)}
		})}, with(func(p *template.Policy) {
			p.Approval, p.DriftInterval = infrav1.ApprovalManual, 3*time.Hour
			p.RetryLimit, p.MinBackoff, p.MaxBackoff = ptr.To[int32](0), time.Second, 3*time.Second
		})},
		{
			"the stricter approval of the deletion wins",
			[]func(*template.Sources){
				templateSpec(func(w *infrav1.WorkspaceSpec) { w.DestroyApproval = infrav1.ApprovalManual }),
				applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.DestroyApproval = infrav1.ApprovalAuto }),
			},
			with(func(p *template.Policy) { p.DestroyApproval = infrav1.ApprovalManual }),
		},
		{"the workspace overrides some settings", []func(*template.Sources){ofTemplate, applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.Drift = &infrav1.DriftPolicy{Interval: duration(3 * time.Hour)}
			a.Retry = &infrav1.RetryPolicy{MaxBackoff: duration(3 * time.Minute)}
		})}, func() template.Policy {
			p := merged
			p.DriftInterval, p.MaxBackoff = 3*time.Hour, 3*time.Minute
			return p
		}()},
		{"a maximum below the minimum", []func(*template.Sources){ofTemplate, applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.Retry = &infrav1.RetryPolicy{MinBackoff: duration(time.Hour)}
		})}, func() template.Policy {
			p := merged
			p.MinBackoff, p.MaxBackoff = time.Hour, time.Hour
			return p
		}()},
		{"the provider config", []func(*template.Sources){config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Runner, c.MaxConcurrentRuns = &infrav1.RunnerConfig{Executor: infrav1.ExecutorJob}, ptr.To[int32](3)
		})}, with(func(p *template.Policy) { p.Executor, p.MaxConcurrent = infrav1.ExecutorJob, 3 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(resolve(g, tt.changes...).Policy).To(Equal(tt.want))
			g.Expect(template.PolicyOf(sources(tt.changes...))).To(Equal(tt.want))
		})
	}
	NewWithT(t).Expect(template.PolicyOf(template.Sources{Apply: sources().Apply, Template: &infrav1.WorkspaceTemplate{}})).To(Equal(defaults), "with an unknown template")
}

// Otherwise the author of a workspace decides whether the plans of a template that
// requires approval wait.
func TestPolicy_strictestApprovalWins(t *testing.T) {
	const auto, manual = infrav1.ApprovalAuto, infrav1.ApprovalManual
	for _, tt := range []struct{ template, workspace, want infrav1.ApprovalMode }{
		{"", "", auto},
		{auto, "", auto},
		{"", auto, auto},
		{auto, auto, auto},
		{manual, "", manual},
		{"", manual, manual},
		{auto, manual, manual},
		{manual, auto, manual},
		{manual, manual, manual},
	} {
		policy := template.PolicyOf(sources(
			templateSpec(func(w *infrav1.WorkspaceSpec) { w.Approval = tt.template }),
			applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Approval = tt.workspace }),
		))
		NewWithT(t).Expect(policy.Approval).To(Equal(tt.want), "template %q, workspace %q", tt.template, tt.workspace)
	}
}

func TestTimeout_workspaceOverridesTemplateOverridesOneHour(t *testing.T) {
	g := NewWithT(t)
	ofTemplate := templateSpec(func(w *infrav1.WorkspaceSpec) { w.Timeout = duration(2 * time.Hour) })
	ofApply := applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Timeout = duration(time.Minute) })
	g.Expect(resolve(g).Request.Timeout).To(Equal(time.Hour))
	g.Expect(resolve(g, ofTemplate).Request.Timeout).To(Equal(2 * time.Hour))
	g.Expect(resolve(g, ofTemplate, ofApply).Request.Timeout).To(Equal(time.Minute))
	g.Expect(resolve(g).Request.Grace).To(BeNumerically(">=", time.Minute))
}

func TestProtect_isTheUnion(t *testing.T) {
	g := NewWithT(t)
	ofTemplate := templateSpec(func(w *infrav1.WorkspaceSpec) { w.Protect = []infrav1.ProtectPattern{"aws_vpc", "a.b"} })
	ofApply := applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Protect = []infrav1.ProtectPattern{"c.d", "a.b"} })
	g.Expect(resolve(g).Request.Protect).To(BeEmpty())
	g.Expect(resolve(g, ofTemplate, ofApply).Request.Protect).To(Equal([]string{"a.b", "aws_vpc", "c.d"}))
	g.Expect(resolve(g, ofTemplate, applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Protect = nil })).Request.Protect).To(HaveLen(2), "a workspace cannot remove protection")
}
