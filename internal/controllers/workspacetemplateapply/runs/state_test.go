package runs

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

func TestInUse(t *testing.T) {
	g := NewWithT(t)
	g.Expect(InUse(nil)).To(BeFalse())
	g.Expect(InUse(&infrav1.StateStatus{Backend: "s3", Lineage: "l"})).To(BeFalse())
	g.Expect(InUse(&infrav1.StateStatus{Resources: 1})).To(BeTrue())
	g.Expect(InUse(&infrav1.StateStatus{Confirmation: infrav1.StateUnconfirmed})).To(BeTrue())
}

func TestLeftLock(t *testing.T) {
	left, settled, failed := &terraform.Result{LockLeft: true, Outcome: terraform.OutcomeFailed}, &terraform.Result{Outcome: terraform.OutcomeSucceeded}, &terraform.Result{Outcome: terraform.OutcomeFailed}
	for name, tt := range map[string]struct {
		results []*terraform.Result
		want    bool
	}{
		"no run":                     {nil, false},
		"the last run":               {[]*terraform.Result{left, settled}, true},
		"a run before a failed one":  {[]*terraform.Result{failed, left}, true},
		"a run before a settled one": {[]*terraform.Result{settled, left}, false},
		"a run that has not ended":   {[]*terraform.Result{nil, failed}, false},
	} {
		NewWithT(t).Expect(LeftLock(tt.results)).To(Equal(tt.want), name)
	}
}

func TestStateBackend(t *testing.T) {
	for name, tt := range map[string]struct {
		state *infrav1.StateStatus
		want  string
	}{
		"none": {nil, ""}, "empty": {&infrav1.StateStatus{Backend: "s3"}, ""}, "unknown": {&infrav1.StateStatus{Resources: 1}, ""},
		"without configuration": {&infrav1.StateStatus{Resources: 1, Backend: "local"}, "local"},
		"with configuration":    {&infrav1.StateStatus{Resources: 1, Backend: "s3", Configuration: "11111111"}, "s3-11111111"},
	} {
		NewWithT(t).Expect(StateBackend(tt.state)).To(Equal(tt.want), name)
	}
}
