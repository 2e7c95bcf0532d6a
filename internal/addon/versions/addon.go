package versions

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// Unfit tells why an add-on is not for a version of Kubernetes, or nil: by its
// own range, and by the matrix that it names.
func (m *Matrix) Unfit(addon *addonsv1.CAPTAddon, kubernetes string) error {
	want := addon.Spec.Versions
	if want == nil {
		return nil
	}
	if want.Kubernetes != "" && !InRange(want.Kubernetes, kubernetes) {
		return fmt.Errorf("it is for Kubernetes %s, not %s: change versions.kubernetes, or take another version of the add-on", want.Kubernetes, kubernetes)
	}
	if of := VersionOf(addon); want.Matrix != "" && of != "" {
		return m.Check(want.Matrix, of, kubernetes)
	}
	return nil
}

// VersionOf is the version of what an add-on installs: its chart's, else what it
// says of its manifests.
func VersionOf(addon *addonsv1.CAPTAddon) string {
	if addon.Spec.Helm != nil {
		return addon.Spec.Helm.Chart.Version
	}
	if addon.Spec.Versions != nil {
		return addon.Spec.Versions.Version
	}
	return ""
}

// InRange tells whether a version is in a range such as ">=1.29 <1.38". What
// cannot be read is in no range.
func InRange(limits, text string) bool {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return false
	}
	for limit := range strings.FieldsSeq(limits) {
		operator := limit[:len(limit)-len(strings.TrimLeft(limit, "<>="))]
		bound, err := version.ParseGeneric(limit[len(operator):])
		if err != nil || !holds(v, operator, bound) {
			return false
		}
	}
	return true
}

// holds compares versions. A bound without a patch means the whole minor.
func holds(v *version.Version, operator string, bound *version.Version) bool {
	order := 1
	switch {
	case v.EqualTo(bound):
		order = 0
	case v.LessThan(bound):
		order = -1
	}
	if len(bound.Components()) < 3 && v.Major() == bound.Major() && v.Minor() == bound.Minor() {
		order = 0
	}
	switch operator {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	default:
		return order == 0
	}
}
