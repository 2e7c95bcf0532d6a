package decision

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

// DriftUnknown reports whether the drift checks of a workspace with this policy fail. A failure
// that is soon followed by another check does not count. Without periodic checks, only the user
// who requests one waits for its result.
func DriftUnknown(policy template.Policy, drift *infrav1.DriftStatus) bool {
	return ChecksDrift(policy) && CheckFailed(drift) && drift.NextAt.IsZero()
}

// CheckFailed reports whether the latest check that was not canceled failed.
func CheckFailed(drift *infrav1.DriftStatus) bool {
	return drift != nil && drift.Failure != "" && drift.FailedAt.After(drift.CheckedAt.Time)
}
