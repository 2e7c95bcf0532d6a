package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacenotification"
	"github.com/appthrust/capt/internal/controllers/workspaceproviderconfig"
	"github.com/appthrust/capt/internal/controllers/workspacetemplate"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply"
	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/reconcile/cachedreader"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/process"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// setupControllers adds the controllers of the manager's providers.
func setupControllers(ctx context.Context, mgr ctrl.Manager, o *Options) error {
	objects, err := metadataCache(mgr, o)
	if err != nil {
		return fmt.Errorf("watching Secrets and ConfigMaps: %w", err)
	}
	if err := mgr.Add(objects); err != nil {
		return fmt.Errorf("watching Secrets and ConfigMaps: %w", err)
	}
	reader := cachedreader.NewReader(mgr.GetAPIReader(), objects)
	if o.runs(providerInfrastructure) {
		if err := setupEngine(ctx, mgr, o, objects, reader); err != nil {
			return err
		}
	}
	if o.runs(providerBootstrap) {
		if err := setupBootstrap(mgr, o); err != nil {
			return err
		}
	}
	if o.runs(providerInfrastructure) || o.runs(providerControlPlane) || o.runs(providerAddon) {
		return setupClusters(ctx, mgr, o, objects, reader)
	}
	return nil
}

// adding returns the error of a controller that cannot be added, if any.
func adding(kind string, err error) error {
	if err != nil {
		return fmt.Errorf("adding %s: %w", kind, err)
	}
	return nil
}

// setupEngine adds the controllers of workspaces and of what belongs to them.
func setupEngine(ctx context.Context, mgr ctrl.Manager, o *Options, objects cache.Cache, reader client.Reader) error {
	exits := make(chan event.GenericEvent, 1<<12)
	o.Engine.Hide = append(o.Engine.Hide, o.WebhookCertDir)
	runners, err := o.Engine.runners(mgr, o.ShutdownTimeout, exits)
	if err != nil {
		return err
	}
	executor := infrav1.ExecutorProcess
	if o.Engine.Executor == executorJob {
		executor = infrav1.ExecutorJob
	}
	tracer, err := setupTraces(ctx, mgr, o)
	if err != nil {
		return err
	}
	if err := (&workspacetemplateapply.Reconciler{
		Client: mgr.GetClient(), Reader: reader, Metadata: objects, Grants: o.grants(mgr), Limits: o.Engine.Limits, NoClusterPolicies: !o.ClusterPolicies,
		Artifacts: &flux.Fetcher{Hosts: o.Network.ArtifactHosts, Limit: terraform.MaxArtifact},
		Runners:   runners, Default: executor, SealKey: sealKeyReader(mgr, &o.Engine), MaxRuns: o.Engine.limits(), RunExits: exits,
		StartTimeout: o.Engine.StartTimeout, MaxTimeout: o.Engine.MaxRunTimeout,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-workspace"), Tracer: tracer, Now: time.Now,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.Concurrency}); err != nil {
		return fmt.Errorf("adding WorkspaceTemplateApply: %w", err)
	}
	return setupTemplates(ctx, mgr, o, objects, reader)
}

// setupTemplates adds the controllers of templates, provider configs and notifications.
func setupTemplates(ctx context.Context, mgr ctrl.Manager, o *Options, objects cache.Cache, reader client.Reader) error {
	if err := usage.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	grants := o.grants(mgr)
	users := usage.Finder{
		Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace,
		Granted: func(ctx context.Context, namespace string, template client.ObjectKey) (bool, error) {
			err := grants.Check(ctx, namespace, infrav1.GrantedWorkspaceTemplate, template)
			if fault.Is(err) {
				return false, nil
			}
			return err == nil, err
		},
	}
	options := controller.Options{MaxConcurrentReconciles: o.Concurrency}
	return errors.Join(
		adding("WorkspaceTemplate", (&workspacetemplate.Reconciler{
			Client: mgr.GetClient(), Usage: users,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-template"), Now: time.Now,
		}).SetupWithManager(mgr, options)),
		adding("WorkspaceProviderConfig", (&workspaceproviderconfig.Reconciler{
			Client: mgr.GetClient(), Reader: reader, Metadata: objects, Usage: users,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-provider-config"),
		}).SetupWithManager(ctx, mgr, options)),
		adding("WorkspaceNotification", (&workspacenotification.Reconciler{
			Client: mgr.GetClient(), Reader: reader, Metadata: objects, Network: o.Network.notifications(),
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-notification"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options)),
	)
}

// runners returns the executors that this manager can use. The job executor is
// always one of them, because a WorkspaceProviderConfig can name the image.
func (o *EngineOptions) runners(mgr ctrl.Manager, grace time.Duration, exits chan<- event.GenericEvent) (map[infrav1.Executor]terraform.Runner, error) {
	runners := map[infrav1.Executor]terraform.Runner{}
	if o.Executor == executorProcess {
		if err := host.PrivateDir(o.WorkDir); err != nil {
			return nil, fmt.Errorf("creating the work directory: %w", err)
		}
		executor := process.New(process.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), API: mgr.GetConfig(),
			Runner: o.Runner, Binary: o.Binary, WorkDir: o.WorkDir, Inherit: o.inherit(), Hidden: o.hidden(), Sandbox: o.Sandbox, Grace: grace,
			OnExit: func(run terraform.Run) { exits <- workspacetemplateapply.RunExit(run) },
		})
		if err := mgr.Add(manager.RunnableFunc(executor.Run)); err != nil {
			return nil, fmt.Errorf("adding the process executor: %w", err)
		}
		runners[infrav1.ExecutorProcess] = executor
	}
	runners[infrav1.ExecutorJob] = job.New(job.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Image: o.RunnerImage, Env: proxies(), NetworkPolicy: o.RunNetworkPolicy,
	})
	return runners, nil
}

// proxies returns the manager's proxy settings, which Jobs use as well.
func proxies() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	return env
}
