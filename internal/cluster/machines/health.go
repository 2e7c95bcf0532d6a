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

// countedDeletion is how long a machine that is being deleted counts as one with a
// problem. One that hangs must not prevent the replacement of others for ever.
const countedDeletion = time.Hour

// Health is the result of a health check.
type Health struct {
	// Unhealthy are the machines of the set whose problem has lasted too long.
	Unhealthy []Machine
	// Replace are the unhealthy machines to delete. It is empty if too many machines
	// have a problem.
	Replace []Machine
	// Troubled is the number of machines that have a problem, including those that are
	// being deleted. Limit is how many may have one.
	Troubled, Limit int
	// Raised reports whether the limit is a percentage of less than one machine, which
	// counts as one only if most nodes of the cluster work.
	Raised bool
	// Deleting are the machines with a problem that are being deleted, and count.
	Deleting []Machine
	// Next is the time until the problem of another machine has lasted too long, or until
	// one that is being deleted does not count any more. It is zero if there is none.
	Next time.Duration
}

// Group are the machines that the limit of a health check refers to: those of a set, or
// of all sets of a deployment.
type Group struct {
	Machines []Machine
	// Replicas is the desired number of machines.
	Replicas int32
}

// CheckHealth checks the machines of a set, which are in a group. A nil check uses the
// defaults.
//
// Every machine of the group with a problem counts against the limit, however short the
// problem has lasted, and so do those that are being replaced: machines that fail at the
// same time must not be replaced one after another. Only instances that start do not
// count.
func CheckHealth(check *infrav1.HealthCheck, own []Machine, group Group, now time.Time) Health {
	if check == nil {
		check = &infrav1.HealthCheck{}
	}
	health := Health{}
	health.Limit, health.Raised = maxUnhealthy(check, group.Replicas)
	for _, m := range group.Machines {
		left := Timeout(check, m.Problem) - now.Sub(m.ProblemSince)
		switch counted := countedDeletion - now.Sub(m.DeletedAt); {
		case m.Problem == "" || m.Deleting && counted <= 0:
		case m.Deleting:
			health.Troubled++
			health.Deleting = append(health.Deleting, m)
			health.wait(counted)
		case m.Problem != infrav1.WaitingForNodeReason || left <= 0:
			health.Troubled++
		}
	}
	for _, m := range own {
		if m.Problem == "" || m.Deleting || m.Unreplaceable {
			continue
		}
		if left := Timeout(check, m.Problem) - now.Sub(m.ProblemSince); left > 0 {
			health.wait(left)
			continue
		}
		health.Unhealthy = append(health.Unhealthy, m)
	}
	if health.Troubled <= health.Limit {
		health.Replace = health.Unhealthy
	}
	return health
}

// wait sets the time until the next check, unless an earlier one is known.
func (h *Health) wait(left time.Duration) {
	if h.Next == 0 || left < h.Next {
		h.Next = left
	}
}

// Timeout returns how long a problem may last.
func Timeout(check *infrav1.HealthCheck, problem string) time.Duration {
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
// does not accept counts as zero. One of less than a machine is raised to one, because a
// single machine would never be replaced.
func maxUnhealthy(check *infrav1.HealthCheck, replicas int32) (limit int, raised bool) {
	value := intstr.ValueOrDefault(check.MaxUnhealthy, intstr.FromString(defaultMaxUnhealthy))
	n, err := intstr.GetScaledValueFromIntOrPercent(value, int(replicas), false)
	switch {
	case err != nil:
		return 0, false
	case n == 0 && value.Type == intstr.String && value.StrVal != "0%":
		return 1, true
	}
	return n, false
}
