package decision

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

// GaveUp reports whether a workspace with this failure is not retried any more because its
// attempts have reached the limit of its policy.
func GaveUp(policy template.Policy, failure *infrav1.FailureStatus) bool {
	return policy.RetryLimit != nil && failure.Attempts > *policy.RetryLimit && countsAsAttempt(failure)
}
