package machines

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The defaults of a health check.
const (
	defaultStartupTimeout   = 20 * time.Minute
	defaultUnhealthyTimeout = 5 * time.Minute
	defaultMaxUnhealthy     = "40%"
)

// Health is the result of a health check.
type Health struct {
	// Unhealthy are the machines whose problem has lasted too long.
	Unhealthy []Machine
	// Replace are the unhealthy machines to delete. It is empty if too many machines
	// have a problem.
	Replace []Machine
	// Troubled is the number of machines that have a problem, including those that are
	// being deleted. Limit is how many may have one.
	Troubled, Limit int
	// Next is the time until the problem of another machine has lasted too long. It is
	// zero if there is none.
	Next time.Duration
}

// CheckHealth checks the machines of a set with a number of replicas. A nil check uses
// the defaults.
//
// Every machine with a problem counts against the limit, however short the problem has
// lasted, and so do those that are being replaced: machines that fail at the same time
// must not be replaced one after another. Only instances that start do not count.
func CheckHealth(check *infrav1.HealthCheck, all []Machine, replicas int32, now time.Time) Health {
	if check == nil {
		check = &infrav1.HealthCheck{}
	}
	health := Health{Limit: maxUnhealthy(check, replicas)}
	for _, m := range all {
		if m.Problem == "" {
			continue
		}
		left := timeout(check, m.Problem) - now.Sub(m.ProblemSince)
		if m.Problem != infrav1.WaitingForNodeReason || left <= 0 {
			health.Troubled++
		}
		switch {
		case m.Deleting || m.Unreplaceable:
		case left <= 0:
			health.Unhealthy = append(health.Unhealthy, m)
		case health.Next == 0 || left < health.Next:
			health.Next = left
		}
	}
	if health.Troubled <= health.Limit {
		health.Replace = health.Unhealthy
	}
	return health
}

// timeout returns how long a problem may last.
func timeout(check *infrav1.HealthCheck, problem string) time.Duration {
	switch {
	case problem == infrav1.ProviderIDChangedReason:
		return 0
	case problem == infrav1.WaitingForNodeReason && check.NodeStartupTimeout != nil:
		return check.NodeStartupTimeout.Duration
	case problem == infrav1.WaitingForNodeReason:
		return defaultStartupTimeout
	case check.NodeUnhealthyTimeout != nil:
		return check.NodeUnhealthyTimeout.Duration
	}
	return defaultUnhealthyTimeout
}

// maxUnhealthy returns how many machines may be unhealthy. A percentage that the API
// does not accept counts as zero.
func maxUnhealthy(check *infrav1.HealthCheck, replicas int32) int {
	limit := intstr.ValueOrDefault(check.MaxUnhealthy, intstr.FromString(defaultMaxUnhealthy))
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, int(replicas), false)
	switch {
	case err != nil:
		return 0
	case limit.Type == intstr.String && limit.StrVal != "0%":
		return max(n, 1)
	}
	return n
}
