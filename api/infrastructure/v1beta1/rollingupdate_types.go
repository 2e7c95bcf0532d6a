package v1beta1

import "k8s.io/apimachinery/pkg/util/intstr"

// MachineDeletePolicy chooses which machine is deleted first when a set scales
// down.
// Every policy first deletes machines with the annotation
// cluster.x-k8s.io/delete-machine.
// +kubebuilder:validation:Enum=Random;Newest;Oldest
type MachineDeletePolicy string

// The policies by which a set chooses the machine to delete.
const (
	// RandomMachineDeletePolicy prefers unhealthy machines, then any.
	RandomMachineDeletePolicy MachineDeletePolicy = "Random"
	// NewestMachineDeletePolicy deletes the newest machine first.
	NewestMachineDeletePolicy MachineDeletePolicy = "Newest"
	// OldestMachineDeletePolicy deletes the oldest machine first.
	OldestMachineDeletePolicy MachineDeletePolicy = "Oldest"
)

// RollingUpdate limits a rolling update.
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && (self.maxSurge == 0 || self.maxSurge == '0%') && (self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="maxSurge and maxUnavailable cannot both be 0: set one of them to at least 1"
type RollingUpdate struct {
	// maxSurge is how many machines may exist above the desired number, as a
	// number or a percentage. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxSurge must be a number of 0 or more, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many of the desired machines may be unavailable, as a
	// number or a percentage. Defaults to 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnavailable must be a number of 0 or more, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// deletePolicy chooses which machine of an old set is deleted first. Defaults to
	// the set's own policy.
	// +optional
	DeletePolicy MachineDeletePolicy `json:"deletePolicy,omitempty"`
}
