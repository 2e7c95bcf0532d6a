package manager

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/captbootstrapconfig"
	"github.com/appthrust/capt/internal/controllers/captmachine"
	"github.com/appthrust/capt/internal/controllers/captmachinedeployment"
	"github.com/appthrust/capt/internal/controllers/captmachinepool"
	"github.com/appthrust/capt/internal/controllers/captmachineset"
	"github.com/appthrust/capt/internal/controllers/captmachinetemplate"
)

// setupMachines adds the controllers of machines, of their sets and deployments, and of
// machine pools.
func setupMachines(ctx context.Context, mgr ctrl.Manager, o *Options, workspaces *workspace.Keeper, clusters clustercache.ClusterCache) error {
	options := controller.Options{MaxConcurrentReconciles: o.Concurrency}
	if err := (&captmachine.Reconciler{
		Client: mgr.GetClient(), Workspaces: workspaces, Clusters: clusters,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding CAPTMachine: %w", err)
	}
	if err := (&captmachinepool.Reconciler{
		Client: mgr.GetClient(), Workspaces: workspaces, Clusters: clusters,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-pool"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding CAPTMachinePool: %w", err)
	}
	if err := (&captmachinetemplate.Reconciler{Client: mgr.GetClient(), WatchFilter: o.WatchFilter}).SetupWithManager(mgr, options); err != nil {
		return fmt.Errorf("adding CAPTMachineTemplate: %w", err)
	}
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

// setupBootstrap adds the controller of bootstrap data.
func setupBootstrap(mgr ctrl.Manager, o *Options) error {
	if err := (&captbootstrapconfig.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-bootstrap"),
	}).SetupWithManager(mgr, controller.Options{MaxConcurrentReconciles: o.Concurrency}); err != nil {
		return fmt.Errorf("adding CAPTBootstrapConfig: %w", err)
	}
	return nil
}
