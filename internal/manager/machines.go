package manager

import (
	"context"
	"errors"
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
	return errors.Join(
		adding("CAPTMachine", (&captmachine.Reconciler{
			Client: mgr.GetClient(), Workspaces: workspaces, Clusters: clusters,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options)),
		adding("CAPTMachinePool", (&captmachinepool.Reconciler{
			Client: mgr.GetClient(), Workspaces: workspaces, Clusters: clusters,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-pool"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options)),
		adding("CAPTMachineTemplate", (&captmachinetemplate.Reconciler{Client: mgr.GetClient(), WatchFilter: o.WatchFilter}).SetupWithManager(mgr, options)),
		adding("CAPTMachineSet", (&captmachineset.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clusters: clusters,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-set"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options)),
		adding("CAPTMachineDeployment", (&captmachinedeployment.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Workspaces: workspaces,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-machine-deployment"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options)),
	)
}

// setupBootstrap adds the controller of bootstrap data.
func setupBootstrap(mgr ctrl.Manager, o *Options) error {
	return adding("CAPTBootstrapConfig", (&captbootstrapconfig.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-bootstrap"),
	}).SetupWithManager(mgr, controller.Options{MaxConcurrentReconciles: o.Concurrency}))
}
