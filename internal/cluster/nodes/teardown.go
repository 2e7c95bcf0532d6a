package nodes

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// teardownInterval is how often a teardown is checked.
const teardownInterval = 5 * time.Second

// WaitForTeardown returns a wait while the Cluster is being deleted and nodes are still
// needed: by the controllers that delete load balancers, by Karpenter, and by Flux, which
// uninstalls add-ons. The control plane's conditions report the progress. Cluster API
// deletes nodes before it deletes the control plane.
func WaitForTeardown(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) error {
	if cluster == nil || cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	found, err := get(ctx, c, cluster, cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion.Group, "CAPTControlPlane", controlPlane)
	if err != nil || !found {
		return err
	}
	initialized := controlPlane.Status.Initialization.ControlPlaneInitialized
	if initialized == nil || !*initialized || conditions.IsTrue(controlPlane, controlplanev1.AddonsGoneCondition) {
		return nil
	}
	return fault.WaitFor(teardownInterval, infrav1.WaitingForTeardownReason, "Waiting until the load balancers, Karpenter's nodes and the add-ons of the cluster are deleted: see the conditions of CAPTControlPlane %s", controlPlane.Name)
}
