package desired

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func TestNextVersion_stepsOneMinorAtATime(t *testing.T) {
	minor := func(minor int) kubeversion.Minor { return kubeversion.Minor{Major: 1, Minor: minor} }
	requested := func(m int) *kubeversion.Minor { return new(minor(m)) }
	tests := []struct {
		name      string
		target    kubeversion.Minor
		requested *kubeversion.Minor
		reached   bool
		want      kubeversion.Minor
	}{
		{"a new control plane starts at the target", minor(33), nil, false, minor(33)},
		{"nothing to do", minor(33), requested(33), true, minor(33)},
		{"one step", minor(33), requested(32), true, minor(33)},
		{"one of several steps", minor(34), requested(31), true, minor(32)},
		{"not before the last step is reached", minor(34), requested(31), false, minor(31)},
		{"never down", minor(31), requested(33), true, minor(33)},
		{"another major is one step", kubeversion.Minor{Major: 2}, requested(40), true, kubeversion.Minor{Major: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(nextVersion(tt.target, tt.requested, tt.reached)).To(Equal(tt.want))
		})
	}
}
