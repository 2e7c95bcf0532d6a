package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalMode tells who approves a plan.
// +kubebuilder:validation:Enum=Auto;Manual
type ApprovalMode string

// The ways a plan is approved.
const (
	// ApprovalAuto applies a plan at once, unless it touches what is protected.
	ApprovalAuto ApprovalMode = "Auto"
	// ApprovalManual waits until spec.approvedPlan names the plan.
	ApprovalManual ApprovalMode = "Manual"
)

// ProtectPattern matches resource addresses or resource types.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="!self.contains(' ') && !self.contains(',')",message="protect takes one address or type per entry, for example module.vpc.aws_vpc.this or aws_eks_cluster"
type ProtectPattern string

// DriftAction tells what happens when reality differs from the state.
// +kubebuilder:validation:Enum=Report;Repair;Off
type DriftAction string

// The answers to drift.
const (
	// DriftReport shows drift in a condition, an event and a metric.
	DriftReport DriftAction = "Report"
	// DriftRepair plans and applies again, under the same approval and protection.
	DriftRepair DriftAction = "Repair"
	// DriftOff never looks for drift.
	DriftOff DriftAction = "Off"
)

// DriftPolicy tells whether and how often reality is compared with the state.
type DriftPolicy struct {
	// action is what happens when something drifted. Defaults to Off.
	// +optional
	Action DriftAction `json:"action,omitempty"`

	// interval is the time between two comparisons; each waits a little more or
	// less, so that workspaces do not compare all at once. Defaults to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('720h')",message="interval must be between 10s and 720h, for example 1h"
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// RetryPolicy bounds how failed runs are tried again. Failures that only a
// change can mend are not tried again.
// +kubebuilder:validation:XValidation:rule="!has(self.minBackoff) || !has(self.maxBackoff) || !self.minBackoff.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || !self.maxBackoff.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self.minBackoff) <= duration(self.maxBackoff)",fieldPath=".minBackoff",message="minBackoff must not be longer than maxBackoff"
type RetryPolicy struct {
	// limit is how many times in a row a failed run is tried again. Without it
	// there is no limit; 0 never tries again.
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

	// maxBackoff is the longest wait between two tries. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxBackoff must be between 1s and 24h, for example 10m"
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`
}
