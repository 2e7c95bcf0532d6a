package captcontrolplane

import (
	"context"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Workload connects to workload clusters.
type Workload interface {
	// Version checks that the API server is ready, and returns its version. It
	// blocks for seconds at most.
	Version(ctx context.Context, kubeconfig []byte) (*apiversion.Info, error)
	// Client returns a client that reads without a cache.
	Client(kubeconfig []byte) (client.Client, error)
}

// probeInterval is the delay between requests to an API server that does not
// respond.
const probeInterval = 3 * time.Second

// available checks that the API server responds. From then on, a change of the
// connection to the workload cluster triggers the next check.
func (r *Reconciler) available(ctx context.Context, s *scope) error {
	if len(s.kubeconfig) == 0 {
		return fault.Wait(controlplanev1.WaitingForKubeconfigReason, "The kubeconfig does not exist yet")
	}
	info, err := r.Workload.Version(ctx, s.kubeconfig)
	if err != nil {
		return fault.WaitFor(probeInterval, controlplanev1.APIServerUnreachableReason, "API server is unreachable: %w", err)
	}
	s.recordVersion(info)
	return nil
}

// recordVersion writes the version of an available API server to the status.
func (s *scope) recordVersion(info *apiversion.Info) {
	status := &s.controlPlane.Status
	status.Version = reportedVersion(observedVersion(info), s.controlPlane.Spec.Version, status.Version)
	status.Versions = []clusterv1.StatusVersion{{Version: status.Version}}
	// Cluster API copies the endpoint when the control plane is initialized, so
	// the endpoint must have been written by an earlier reconciliation.
	if s.endpointPublished {
		status.Initialization.ControlPlaneInitialized = new(true)
	}
}
