package manager

import (
	"context"
	"time"

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

// releaseInterval is how often pages of the program are released. A page that is used
// again costs microseconds.
const releaseInterval = 30 * time.Second

// pages is started by the manager after its caches, on each replica. It releases the pages
// of the program that are rarely used: those that only the start needs, and later those
// that only changes need.
type pages struct{}

// Start implements manager.Runnable.
func (pages) Start(ctx context.Context) error {
	program, err := host.OpenProgram()
	timer := time.NewTicker(releaseInterval)
	defer timer.Stop()
	for {
		if err == nil {
			err = program.ReleasePages()
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Kept the pages of the program that are rarely used", "reason", err.Error())
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (pages) NeedLeaderElection() bool { return false }
