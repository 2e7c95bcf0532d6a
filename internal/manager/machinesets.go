package manager

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/captmachinedeployment"
	"github.com/appthrust/capt/internal/controllers/captmachineset"
)

// setupMachineSets adds the controllers of machine sets and machine deployments.
func setupMachineSets(ctx context.Context, mgr ctrl.Manager, o *Options, workspaces *workspace.Keeper, clusters clustercache.ClusterCache) error {
	options := controller.Options{MaxConcurrentReconciles: o.Concurrency}
	if err := (&captmachineset.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clusters: clusters,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-set"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding CAPTMachineSet: %w", err)
	}
	if err := (&captmachinedeployment.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Workspaces: workspaces,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-deployment"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding CAPTMachineDeployment: %w", err)
	}
	return nil
}
