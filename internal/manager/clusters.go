package manager

import (
	"context"
	"fmt"
	"os"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/connection"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/controllers/captcluster"
	"github.com/appthrust/capt/internal/controllers/captcontrolplane"
)

// setupClusters adds the controllers of the manager's providers that need
// connections to workload clusters: clusters, control planes, machines and add-ons.
func setupClusters(ctx context.Context, mgr ctrl.Manager, o *Options, objects cache.Cache, reader client.Reader) error {
	options := controller.Options{MaxConcurrentReconciles: o.Concurrency}
	clusters, err := connection.SetupWithManager(ctx, mgr, connection.Options{
		Clusters: mgr.GetClient(), Secrets: workload.Reader{Reader: mgr.GetAPIReader(), Policy: o.Network.clusters()}, Metadata: objects,
		Connector:   workload.Connector{Policy: o.Network.clusters()},
		Scheme:      mgr.GetScheme(),
		WatchFilter: o.WatchFilter, Filter: needsConnection,
		Transform: reduce, ByObject: workloadSelectors(),
		Pod: connection.Pod{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME"), UID: os.Getenv("POD_UID")}, Own: mgr.GetConfig(),
		Now: time.Now,
	}, options)
	if err != nil {
		return fmt.Errorf("adding the connections to workload clusters: %w", err)
	}
	matrix, err := versions.Default()
	if err != nil {
		return err
	}
	if o.runs(providerInfrastructure) || o.runs(providerControlPlane) {
		if err := setupWorkspaces(ctx, mgr, o, reader, clusters, matrix); err != nil {
			return err
		}
	}
	if o.runs(providerAddon) {
		return setupAddons(ctx, mgr, o, objects, reader, clusters, matrix)
	}
	return nil
}

// setupWorkspaces adds the controllers that own workspaces.
func setupWorkspaces(ctx context.Context, mgr ctrl.Manager, o *Options, reader client.Reader, clusters clustercache.ClusterCache, matrix *versions.Matrix) error {
	if err := workspace.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	options := controller.Options{MaxConcurrentReconciles: o.Concurrency}
	workspaces := &workspace.Keeper{Client: mgr.GetClient(), Live: reader, Grants: o.grants(mgr)}
	cloud := aws.Cloud{OwnIdentity: o.AWSOwnIdentity, Policy: o.Network.clusters(), Now: time.Now}
	if o.runs(providerControlPlane) {
		if err := (&captcontrolplane.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workspaces: workspaces, Cloud: cloud,
			Workload: workload.Connector{Scheme: mgr.GetScheme(), Policy: o.Network.clusters()}, Clusters: clusters, Versions: matrix,
			WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-control-plane"), Now: time.Now,
		}).SetupWithManager(ctx, mgr, options); err != nil {
			return fmt.Errorf("adding CAPTControlPlane: %w", err)
		}
	}
	if !o.runs(providerInfrastructure) {
		return nil
	}
	if err := (&captcluster.Reconciler{
		Client: mgr.GetClient(), Workspaces: workspaces, Cloud: cloud,
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-cluster"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding CAPTCluster: %w", err)
	}
	return setupMachines(ctx, mgr, o, workspaces, clusters)
}

// needsConnection reports whether CAPT connects to a cluster: its control plane or its machines are
// CAPT's, or it has add-ons. Until a control plane is initialized every attempt fails, and each
// failure delays the next attempt.
func needsConnection(cluster *clusterv1.Cluster) bool {
	ref, initialized := cluster.Spec.ControlPlaneRef, cluster.Status.Initialization.ControlPlaneInitialized
	if ref.IsDefined() && (initialized == nil || !*initialized) {
		return false
	}
	machines := ref.IsDefined() && infrav1.IsCAPTCluster(cluster.Spec.InfrastructureRef)
	return controlplanev1.IsCAPTControlPlane(ref) || machines || cluster.Labels[addonsv1.ClusterLabel] == cluster.Name
}

// grants returns what decides about references to other namespaces. A manager of one
// namespace cannot read others.
func (o *Options) grants(mgr ctrl.Manager) *grant.Checker {
	return &grant.Checker{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Denied: o.NoCrossNamespaceRefs || o.Namespace != ""}
}
