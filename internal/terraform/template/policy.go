package template

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// defaultDriftInterval is the default of Policy.DriftInterval.
const defaultDriftInterval = time.Hour

// PolicyOf returns the policy of a workspace. Its settings override those of the
// template, except that each of both can require approval, as can the template of the
// resources that exist. The template and the provider config may be incomplete.
func PolicyOf(s Sources) Policy {
	t, a := s.Template.Spec.Template.Spec, s.Apply.Spec
	p := Policy{
		Approval: infrav1.ApprovalAuto, DestroyApproval: infrav1.ApprovalAuto, DriftAction: infrav1.DriftOff, DriftInterval: defaultDriftInterval,
		MinBackoff: infrav1.DefaultMinBackoff, MaxBackoff: infrav1.DefaultMaxBackoff,
	}
	recorded, guest := s.recorded(), GuestRequirements(s.Apply)
	p.Approval = cmp.Or(stricter(t.Approval, a.Approval), stricter(recorded.Approval, guest.Approval), p.Approval)
	p.DestroyApproval = cmp.Or(stricter(t.DestroyApproval, a.DestroyApproval), stricter(recorded.DestroyApproval, guest.DestroyApproval), p.DestroyApproval)
	for _, drift := range []*infrav1.DriftPolicy{t.Drift, a.Drift} {
		if drift == nil {
			continue
		}
		if drift.Action != "" {
			p.DriftAction = drift.Action
		}
		p.DriftInterval = duration(drift.Interval, p.DriftInterval)
	}
	for _, retry := range []*infrav1.RetryPolicy{t.Retry, a.Retry} {
		if retry == nil {
			continue
		}
		if retry.Limit != nil {
			p.RetryLimit = retry.Limit
		}
		p.MinBackoff = duration(retry.MinBackoff, p.MinBackoff)
		p.MaxBackoff = duration(retry.MaxBackoff, p.MaxBackoff)
	}
	p.MaxBackoff = max(p.MinBackoff, p.MaxBackoff)
	if c := s.ProviderConfig; c != nil {
		if c.Spec.Runner != nil {
			p.Executor = c.Spec.Runner.Executor
		}
		if c.Spec.MaxConcurrentRuns != nil {
			p.MaxConcurrent = int(*c.Spec.MaxConcurrentRuns)
		}
	}
	return p
}

func duration(d *metav1.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return d.Duration
}

func (s *Sources) timeout() time.Duration {
	return duration(s.Apply.Spec.Timeout, duration(s.Template.Spec.Template.Spec.Timeout, defaultTimeout))
}

// protect returns the union of the patterns of the template, of the apply and its guest, and of
// the template of the resources that exist. An apply can add protection, but not remove it.
func (s *Sources) protect() []string {
	var patterns []string
	for _, p := range slices.Concat(s.Template.Spec.Template.Spec.Protect, s.Apply.Spec.Protect, GuestRequirements(s.Apply).Protect, s.recorded().Protect) {
		patterns = append(patterns, string(p))
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}
