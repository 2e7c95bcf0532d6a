package manager

import (
	"context"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/klog/v2"
)

// goMemoryRatio is the part of the container's memory limit that the Go runtime may use. The
// rest is for the pages of the program's file and the buffers of connections.
const goMemoryRatio = 0.8

// limitMemory sets the memory limit of the Go runtime by that of the container, unless
// GOMEMLIMIT is set.
func limitMemory(ctx context.Context) {
	limit, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(goMemoryRatio))
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Found no memory limit", "reason", err.Error())
		return
	}
	if limit > 0 {
		klog.FromContext(ctx).Info("Limited memory", "bytes", limit)
	}
}
