package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TemplateRevisionAnnotation is the name of the ControllerRevision with the module that a
// workspace uses, if its template has stages. CAPT writes it when the stage of the workspace
// begins. It survives a move to another management cluster.
const TemplateRevisionAnnotation = "capt.appthrust.io/template-revision"

// Condition of a WorkspaceTemplate with stages and its reasons, besides RollingOutReason.
const (
	// RolledOutCondition reports whether all workspaces use the current module.
	RolledOutCondition = "RolledOut"
	// RolloutSoakingReason surfaces while a complete stage is observed.
	RolloutSoakingReason = "Soaking"
	// RolloutPausedReason surfaces while spec.rollout or the next stage is paused.
	RolloutPausedReason = "RolloutPaused"
	// RolloutFailedReason surfaces when a workspace fails with the current module. No other
	// workspace gets it.
	RolloutFailedReason = "RolloutFailed"
)

// RemainingStage is the stage of the workspaces that no stage selects. Names of stages have no
// capital letters.
const RemainingStage = "Remaining"

// WaitingForRolloutReason surfaces when a workspace waits until the controller of its template
// has chosen the module for it.
const WaitingForRolloutReason = "WaitingForRollout"

// TemplateRollout specifies in which stages a changed module reaches the workspaces. The
// module is forProvider, tool and outputs of the template; its other settings apply at once.
type TemplateRollout struct {
	// paused lets no further workspace change. New workspaces get the current module.
	// +optional
	Paused *bool `json:"paused,omitempty"`

	// stages are changed one after the other. Workspaces that no stage selects change last,
	// together.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStage `json:"stages"`
}

// RolloutStage selects the workspaces that change together. The next stage begins when all of
// them are ready with the current module, without drift, and their Clusters are available.
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.workspaces)",message="a stage needs a selector, workspaces, or both: without them it would be the whole fleet"
type RolloutStage struct {
	// name is the name of the stage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a stage consists of lower-case letters, digits and '-', for example canary"
	Name string `json:"name"`

	// selector selects workspaces by their labels and those of their Clusters. Without it the
	// stage is a part of all workspaces.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// workspaces is how many of the selected workspaces use the current module at the end of
	// the stage: a number, or a percentage, rounded up. Without it all of them do.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern="^([1-9][0-9]?|100)%$"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1",message="workspaces must be a number from 1, or a percentage from 1% to 100%, for example 10%"
	Workspaces *intstr.IntOrString `json:"workspaces,omitempty"`

	// soak is how long the workspaces of the stage must stay ready before the next one
	// begins.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="soak must be between 0s and 720h, for example 1h"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// paused lets the stage not begin. Remove it to approve the stage.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// RolloutStatus is how far the current module of a template has reached its workspaces.
type RolloutStatus struct {
	// revision is the name of the ControllerRevision with the current module.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`

	// previous is the last revision that reached all workspaces, to which captctl rollout undo
	// returns. While the workspaces go back, it is the current one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Previous string `json:"previous,omitempty"`

	// stage is the stage in progress, or Remaining for the workspaces that no stage selects. It
	// is empty before the first stage, and when all workspaces have changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Stage string `json:"stage,omitempty"`

	// completeSince is since when all workspaces of the stage are ready.
	// +optional
	CompleteSince metav1.Time `json:"completeSince,omitempty,omitzero"`

	// workspaces is the number of workspaces of the template.
	// +required
	// +kubebuilder:validation:Minimum=0
	Workspaces int32 `json:"workspaces"`

	// updated is the number of workspaces that use the current module, and ready the number
	// of those that have applied it and are ready.
	// +required
	// +kubebuilder:validation:Minimum=0
	Updated int32 `json:"updated"`

	// ready is the number of workspaces that are ready with the current module.
	// +required
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`
}
