package machines

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Limits bound a rollout.
type Limits struct {
	// Surge is how many machines there may be above the wanted number.
	Surge int32
	// Unavailable is how many of the wanted machines may be unavailable.
	Unavailable int32
}

// LimitsOf resolves the bounds of a strategy. Percentages are of the wanted
// number, a surge is rounded up and what may be unavailable down; where both
// come to nothing, one machine may be unavailable, else nothing could ever be
// replaced. OnDelete has no room at all.
func LimitsOf(strategy *infrav1.MachineDeploymentStrategy, replicas int32) (Limits, error) {
	if TypeOf(strategy) == infrav1.OnDeleteStrategy {
		return Limits{}, nil
	}
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if strategy != nil && strategy.RollingUpdate != nil {
		surge = *intstr.ValueOrDefault(strategy.RollingUpdate.MaxSurge, surge)
		unavailable = *intstr.ValueOrDefault(strategy.RollingUpdate.MaxUnavailable, unavailable)
	}
	up, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	if err != nil {
		return Limits{}, fmt.Errorf("reading maxSurge: %w", err)
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(replicas), false)
	if err != nil {
		return Limits{}, fmt.Errorf("reading maxUnavailable: %w", err)
	}
	if up == 0 && down == 0 {
		down = 1
	}
	return Limits{Surge: int32(up), Unavailable: min(int32(down), replicas)}, nil
}

// TypeOf is how machines are replaced.
func TypeOf(strategy *infrav1.MachineDeploymentStrategy) infrav1.MachineDeploymentStrategyType {
	if strategy == nil || strategy.Type == "" {
		return infrav1.RollingUpdateStrategy
	}
	return strategy.Type
}
