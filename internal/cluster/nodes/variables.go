package nodes

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Minor is the minor of a Kubernetes version, such as 1.33 of v1.33.2. Of what
// is no version it is empty.
func Minor(text string) string {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

// Taint is a taint as a variable holds it. A module may declare each of the
// three as a plain string.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// Taints are taints as a variable holds them. Those of later lists replace those
// of earlier ones that have the same key and effect.
func Taints(lists ...[]infrav1.Taint) []Taint {
	taints := []Taint{}
	for _, list := range lists {
		for _, t := range list {
			taint := Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
			same := slices.IndexFunc(taints, func(other Taint) bool { return other.Key == taint.Key && other.Effect == taint.Effect })
			if same >= 0 {
				taints[same] = taint
			} else {
				taints = append(taints, taint)
			}
		}
	}
	return taints
}

// Capacity is a capacity type as EKS spells it.
func Capacity(capacity infrav1.CapacityType) string {
	switch capacity {
	case infrav1.CapacityTypeOnDemand:
		return "ON_DEMAND"
	case infrav1.CapacityTypeSpot:
		return "SPOT"
	default:
		return ""
	}
}
