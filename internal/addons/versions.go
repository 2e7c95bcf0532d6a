package addons

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

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
