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

// Workload reaches the cluster behind a kubeconfig.
type Workload interface {
	// Version asks the API server whether it is ready, and for its version. It
	// blocks for seconds at most.
	Version(ctx context.Context, kubeconfig []byte) (*apiversion.Info, error)
	// Client returns a client that reads without a cache.
	Client(kubeconfig []byte) (client.Client, error)
}

// probeRetry is how soon an API server is asked again that did not answer.
const probeRetry = 3 * time.Second

// available asks the API server itself. Once it answers, the connection to the
// workload cluster tells when to ask again.
func (r *Reconciler) available(ctx context.Context, s *scope) error {
	if len(s.config) == 0 {
		return fault.Wait(controlplanev1.WaitingForKubeconfigReason, "There is no kubeconfig yet")
	}
	info, err := r.Workload.Version(ctx, s.config)
	if err != nil {
		return fault.WaitFor(probeRetry, controlplanev1.APIServerUnreachableReason, "The API server does not answer: %w", err)
	}
	status := &s.controlPlane.Status
	status.Version = reportedVersion(observedVersion(info), s.controlPlane.Spec.Version, status.Version)
	status.Versions = []clusterv1.StatusVersion{{Version: status.Version}}
	// Cluster API takes the endpoint over when this is told, so the endpoint is
	// written before.
	if s.addressed {
		status.Initialization.ControlPlaneInitialized = new(true)
	}
	return nil
}
