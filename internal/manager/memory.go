package manager

import (
	"context"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/klog/v2"

	"github.com/appthrust/capt/internal/host"
	_ "github.com/appthrust/capt/internal/host/unprofiled" // The manager serves no profiles.
)

// limitMemory sets the memory limit of the Go runtime by that of the container, unless
// GOMEMLIMIT is set.
func limitMemory(ctx context.Context) {
	provider := func() (uint64, error) {
		container, err := memlimit.FromCgroup()
		return host.GoMemoryLimit(container), err
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
