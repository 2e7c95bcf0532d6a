// Package manager wires the controllers and webhooks together. It is the only
// place that knows all of them.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/version"
	"github.com/appthrust/capt/internal/webhooks"
)

// The election of a leader writes events of the core API, controllers those of events.k8s.io.
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
//
// By this permission config/policy knows managers, also those that write few Secrets.
// +kubebuilder:rbac:groups="",resources=secrets/capt,verbs=manage

// userAgent identifies the manager in the audit log of the API server.
const userAgent = "capt-manager"

// Run runs the manager until the context is cancelled.
func Run(ctx context.Context, config *rest.Config, o *Options) error {
	logger := klog.Background()
	ctrl.SetLogger(logger)
	limitMemory(ctx)

	mgr, err := New(config, o)
	if err != nil {
		return err
	}
	synced, err := setup(ctx, mgr, o)
	if err != nil {
		return err
	}
	logger.Info("Starting manager", "version", version.Get().String(), "providers", o.Providers, "namespace", o.Namespace, "watchFilter", o.WatchFilter, "executor", o.Engine.Executor)
	if !o.ClusterPolicies {
		logger.Info("ClusterWorkspacePolicies are not read, and do not decide about plans; captctl doctor lists those that exist", "flag", "--cluster-policies=false")
	}
	if err := startManager(ctx, mgr, synced); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// startManager runs the manager until the context is cancelled. A manager whose caches
// cannot be synchronised, for example because a permission is missing, ignores that: it
// has started nothing that must end, so it is left behind.
func startManager(ctx context.Context, mgr ctrl.Manager, synced *cachesSynced) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		if synced.check(nil) != nil {
			return nil
		}
		return <-ended
	}
}

// cachesSynced is started by the manager after its caches, on each replica.
type cachesSynced struct{ atomic.Bool }

// Start implements manager.Runnable.
func (s *cachesSynced) Start(context.Context) error {
	s.Store(true)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*cachesSynced) NeedLeaderElection() bool { return false }

// check implements healthz.Checker.
func (s *cachesSynced) check(*http.Request) error {
	if !s.Load() {
		return errors.New("the caches are not synchronised yet")
	}
	return nil
}

// New returns a manager without controllers.
func New(config *rest.Config, o *Options) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = o.QPS, o.Burst
	config.UserAgent = userAgent
	// Each watch would keep the memory of a decompressor.
	config.DisableCompression = true

	tlsOptions, metricsOptions, err := flags.GetManagerOptions(o.Diagnostics)
	if err != nil {
		return nil, fmt.Errorf("configuring metrics: %w", err)
	}
	metricsOptions.CertDir = o.diagnosticsCertDir()
	shutdown := o.ShutdownTimeout
	mo := ctrl.Options{
		Scheme:                        scheme.New(),
		Cache:                         cacheOptions(o),
		Client:                        clientOptions(),
		Metrics:                       *metricsOptions,
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              o.leaderElectionID(),
		LeaderElectionNamespace:       o.LeaderElectNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
		GracefulShutdownTimeout:       &shutdown,
	}
	mo.Controller.MaxConcurrentReconciles = o.Concurrency
	// The priority queue can hand an item to a worker that has stopped, and then
	// blocks the shutdown.
	mo.Controller.UsePriorityQueue = new(false)
	if o.WebhookPort != 0 {
		mo.WebhookServer = webhook.NewServer(webhook.Options{Host: o.WebhookHost, Port: o.WebhookPort, CertDir: o.WebhookCertDir, TLSOpts: tlsOptions})
	}
	mgr, err := ctrl.NewManager(config, mo)
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

// setup adds probes, webhooks and controllers.
func setup(ctx context.Context, mgr ctrl.Manager, o *Options) (*cachesSynced, error) {
	synced := &cachesSynced{}
	if err := errors.Join(mgr.Add(synced), mgr.AddReadyzCheck("caches", synced.check)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	ready := healthz.Ping
	if o.WebhookPort != 0 {
		if err := webhooks.SetupWith(mgr, webhooks.Settings{Groups: o.groups(), NoClusterPolicies: !o.ClusterPolicies}); err != nil {
			return nil, fmt.Errorf("setting up the webhooks: %w", err)
		}
		ready = mgr.GetWebhookServer().StartedChecker()
	}
	if err := mgr.AddReadyzCheck("webhooks", ready); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := setupControllers(ctx, mgr, o); err != nil {
		return nil, err
	}
	return synced, registerObjectMetrics(newObjectMetrics(mgr.GetCache(), mgr.GetScheme(), o, synced))
}
