package manager

import (
	"context"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/klog/v2"
)

// programMemory is the part of the container's memory that the limit of the Go runtime
// does not count: the pages of the program's file that are in use.
const programMemory = 32 << 20

// goMemoryLimit returns the limit of the Go runtime in a container with a memory limit.
// The runtime collects garbage more often when it comes near. A tenth is left for what the
// kernel counts for the container, such as the buffers of connections.
func goMemoryLimit(container uint64) uint64 {
	rest := container / 10 * 9
	return max(rest/2, rest-min(rest, programMemory))
}

// limitMemory sets the memory limit of the Go runtime by that of the container, unless
// GOMEMLIMIT is set.
func limitMemory(ctx context.Context) {
	provider := func() (uint64, error) {
		container, err := memlimit.FromCgroup()
		return goMemoryLimit(container), err
	}
	limit, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithProvider(provider), memlimit.WithRatio(1))
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Found no memory limit", "reason", err.Error())
		return
	}
	if limit > 0 {
		klog.FromContext(ctx).Info("Limited memory", "bytes", limit)
	}
}
