package versions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// CheckAddon returns an error unless an add-on supports a version of Kubernetes,
// according to its own range and to its component in the matrix.
func (m *Matrix) CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error {
	spec := addon.Spec.Versions
	if spec == nil {
		return nil
	}
	if spec.Kubernetes != "" && !InRange(spec.Kubernetes, kubernetes) {
		return fmt.Errorf("it supports Kubernetes %s, not %s: change versions.kubernetes, or use another version of the add-on", spec.Kubernetes, kubernetes)
	}
	if installs := AddonVersion(addon); spec.Matrix != "" && installs != "" {
		return m.Check(spec.Matrix, installs, kubernetes)
	}
	return nil
}

// AddonVersion returns the version of the component that an add-on installs:
// that of its chart, or spec.versions.version for manifests.
func AddonVersion(addon *addonsv1.CAPTAddon) string {
	if addon.Spec.Helm != nil {
		return addon.Spec.Helm.Chart.Version
	}
	if addon.Spec.Versions != nil {
		return addon.Spec.Versions.Version
	}
	return ""
}

// matrixOf returns the component of an add-on in the matrix, or an empty string.
func matrixOf(addon *addonsv1.CAPTAddon) string {
	if addon.Spec.Versions == nil {
		return ""
	}
	return addon.Spec.Versions.Matrix
}

// uses reports whether an add-on passes outputs in a mode. Every add-on uses the empty
// mode.
func uses(addon *addonsv1.CAPTAddon, mode string) bool {
	if mode == "" {
		return true
	}
	return addon.Spec.Helm != nil && slices.ContainsFunc(addon.Spec.Helm.ValuesFrom, func(v addonsv1.OutputValue) bool {
		return cmp.Or(v.Mode, literalMode) == mode
	})
}

// literalMode is the default mode of outputs.
const literalMode = "Literal"

// InRange reports whether a version satisfies all limits of a range such as
// ">=1.29 <1.38". A suffix of the version, such as -eks-1a2b3c4, is ignored. A
// version or limit that does not parse is not in range.
func InRange(limits, text string) bool {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return false
	}
	for limit := range strings.FieldsSeq(limits) {
		operator := limit[:len(limit)-len(strings.TrimLeft(limit, "<>="))]
		bound, err := version.ParseGeneric(limit[len(operator):])
		if err != nil || !satisfies(v, operator, bound) {
			return false
		}
	}
	return true
}

// satisfies reports whether "v operator bound" is true. A bound without a patch
// stands for all patches of its minor version.
func satisfies(v *version.Version, operator string, bound *version.Version) bool {
	order := 0
	switch wholeMinor := len(bound.Components()) < 3; {
	case wholeMinor && v.Major() == bound.Major() && v.Minor() == bound.Minor():
	case v.LessThan(bound):
		order = -1
	case v.GreaterThan(bound):
		order = 1
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
