package desired

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// offerPinned offers the pinned value of a variable, or value if it has none.
func offerPinned(values *workspace.Values, pinned map[string]infrav1.Value, name string, value any) {
	values.Offer(name, pinnedOr(pinned, name, value))
}

// pinnedOr returns the pinned value of a variable, or value if it has none.
func pinnedOr(pinned map[string]infrav1.Value, name string, value any) any {
	if before, found := pinned[name]; found {
		return before
	}
	return value
}

// minorOf returns the minor version of a Kubernetes version, such as 1.33 for
// v1.33.2, or an empty string if text is not a version.
func minorOf(text string) string { return kubeversion.MinorOf(text) }

// taint is the value of one taint in a variable. Modules may declare all three
// attributes as plain strings.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// taints returns the value of a variable with taints. A taint replaces one with
// the same key and effect of an earlier list.
func taints(lists ...[]infrav1.Taint) []taint {
	merged := []taint{}
	for _, list := range lists {
		for _, t := range list {
			added := taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
			same := slices.IndexFunc(merged, func(other taint) bool { return other.Key == added.Key && other.Effect == added.Effect })
			if same >= 0 {
				merged[same] = added
			} else {
				merged = append(merged, added)
			}
		}
	}
	return merged
}

// capacityType returns a capacity type as EKS spells it.
func capacityType(capacity infrav1.CapacityType) string {
	switch capacity {
	case infrav1.CapacityTypeOnDemand:
		return "ON_DEMAND"
	case infrav1.CapacityTypeSpot:
		return "SPOT"
	default:
		return ""
	}
}
