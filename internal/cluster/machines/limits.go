package machines

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Limits are the limits of a rollout.
type Limits struct {
	// Surge is the number of machines above the desired number.
	Surge int32
	// Unavailable is the number of desired machines that may be unavailable.
	Unavailable int32
}

// LimitsOf resolves the limits of a strategy. Percentages are relative to the
// desired number of machines; maxSurge is rounded up, maxUnavailable down. If both
// are zero, one machine may be unavailable, because nothing could be replaced
// otherwise. With OnDelete both limits are zero.
func LimitsOf(strategy *infrav1.MachineDeploymentStrategy, replicas int32) (Limits, error) {
	if StrategyType(strategy) == infrav1.OnDeleteStrategy {
		return Limits{}, nil
	}
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if strategy != nil && strategy.RollingUpdate != nil {
		surge = *intstr.ValueOrDefault(strategy.RollingUpdate.MaxSurge, surge)
		unavailable = *intstr.ValueOrDefault(strategy.RollingUpdate.MaxUnavailable, unavailable)
	}
	up, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	if err != nil {
		return Limits{}, fmt.Errorf("parsing maxSurge: %w", err)
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(replicas), false)
	if err != nil {
		return Limits{}, fmt.Errorf("parsing maxUnavailable: %w", err)
	}
	if up == 0 && down == 0 {
		down = 1
	}
	return Limits{Surge: int32(up), Unavailable: min(int32(down), replicas)}, nil
}

// StrategyType returns the type of a strategy, or the default RollingUpdate.
func StrategyType(strategy *infrav1.MachineDeploymentStrategy) infrav1.MachineDeploymentStrategyType {
	if strategy == nil || strategy.Type == "" {
		return infrav1.RollingUpdateStrategy
	}
	return strategy.Type
}
