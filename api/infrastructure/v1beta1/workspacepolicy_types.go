package v1beta1

import (
	"slices"
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

// WorkspaceSettings are settings of the workspace that CAPT creates for an object. They
// reach a workspace that exists. A field that is not set leaves that of the workspace to
// users, and one that is removed has the default again.
// +kubebuilder:validation:MinProperties=1
type WorkspaceSettings struct {
	// approval specifies whether a plan is applied at once (Auto) or waits for approval
	// (Manual). Auto does not override Manual of the template or of the workspace.
	// Defaults to Auto.
	// +optional
	Approval ApprovalMode `json:"approval,omitempty"`

	// destroyApproval specifies whether the deletion destroys the resources at once
	// (Auto), or waits until a user approves the plan that destroys them (Manual). With
	// Manual, protected resources also hold the deletion back. Auto does not override
	// Manual of the template or of the workspace. Defaults to Auto.
	// +optional
	DestroyApproval ApprovalMode `json:"destroyApproval,omitempty"`

	// protect lists further resources that no plan may destroy or replace unless a user
	// names their address.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Protect []ProtectPattern `json:"protect,omitempty"`

	// drift specifies whether and how often resources are compared with the state.
	// Defaults to the template's.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// retry limits how failed runs are retried. Defaults to the template's.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`
}

// ApplyTo adds the settings to the spec of a workspace. Auto is the default, and not set: it
// does not switch off what a user requires in the workspace.
func (s *WorkspaceSettings) ApplyTo(spec *WorkspaceTemplateApplySpec) {
	if s == nil {
		return
	}
	if s.Approval == ApprovalManual {
		spec.Approval = ApprovalManual
	}
	if s.DestroyApproval == ApprovalManual {
		spec.DestroyApproval = ApprovalManual
	}
	for _, pattern := range s.Protect {
		if !slices.Contains(spec.Protect, pattern) {
			spec.Protect = append(spec.Protect, pattern)
		}
	}
	if s.Drift != nil {
		spec.Drift = s.Drift.DeepCopy()
	}
	if s.Retry != nil {
		spec.Retry = s.Retry.DeepCopy()
	}
}
