package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalMode specifies whether a plan needs the approval of a user.
// +kubebuilder:validation:Enum=Auto;Manual
type ApprovalMode string

// The approval modes.
const (
	// ApprovalAuto applies a plan at once, unless it destroys or replaces a
	// protected resource.
	ApprovalAuto ApprovalMode = "Auto"
	// ApprovalManual waits until spec.approvedPlan names the plan.
	ApprovalManual ApprovalMode = "Manual"
)

// ProtectPattern matches resource addresses or resource types.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="!self.contains(' ') && !self.contains(',')",message="each entry of protect must be one address or type, for example module.vpc.aws_vpc.this or aws_eks_cluster"
type ProtectPattern string

// DriftAction specifies what happens when resources differ from the state.
// +kubebuilder:validation:Enum=Report;Repair;Off
type DriftAction string

// The drift actions.
const (
	// DriftReport reports drift in a condition, an event and a metric.
	DriftReport DriftAction = "Report"
	// DriftRepair plans and applies, under the same approval and protection.
	DriftRepair DriftAction = "Repair"
	// DriftOff turns drift checks off.
	DriftOff DriftAction = "Off"
)

// DriftPolicy specifies whether and how often resources are compared with the state.
type DriftPolicy struct {
	// action specifies what happens on drift. Defaults to Off.
	// +optional
	Action DriftAction `json:"action,omitempty"`

	// interval is the time between two comparisons; a random
	// jitter keeps workspaces from comparing at the same time. Defaults to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('720h')",message="interval must be between 10s and 720h, for example 1h"
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// Defaults of RetryPolicy.
const (
	DefaultMinBackoff = 15 * time.Second
	DefaultMaxBackoff = 10 * time.Minute
)

// RetryPolicy limits how failed runs are retried. Failures that only a change of
// the inputs can fix are not retried.
// +kubebuilder:validation:XValidation:rule="!has(self.minBackoff) || !has(self.maxBackoff) || !self.minBackoff.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || !self.maxBackoff.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self.minBackoff) <= duration(self.maxBackoff)",fieldPath=".minBackoff",message="minBackoff must not be longer than maxBackoff"
type RetryPolicy struct {
	// limit is how many times in a row a failed run is retried. Without it
	// there is no limit; 0 never retries.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Limit *int32 `json:"limit,omitempty"`

	// minBackoff is the wait before the first retry; each further one waits
	// twice as long. Defaults to 15s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s')",message="minBackoff must be at least 1s, for example 15s"
	MinBackoff *metav1.Duration `json:"minBackoff,omitempty"`

	// maxBackoff is the longest wait between two attempts. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxBackoff must be between 1s and 24h, for example 10m"
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`
}
