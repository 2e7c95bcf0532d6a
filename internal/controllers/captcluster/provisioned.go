package captcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
)

// provisioned reports to Cluster API that the infrastructure exists. The field is
// never reset, and does not depend on what happens to the VPC later.
//
// Cluster API then connects to the workload cluster, and repeats an attempt that
// failed only after 30 seconds. A CAPT control plane needs only the VPC, so the
// report waits until there is something to connect to.
func (r *Reconciler) provisioned(ctx context.Context, s *scope) error {
	if ptr.Deref(s.infra.Status.Initialization.Provisioned, false) || !desired.NetworkExists(s.infra) {
		return nil
	}
	awaited, err := r.awaitsControlPlane(ctx, s)
	if err == nil && !awaited {
		s.infra.Status.Initialization.Provisioned = new(true)
	}
	return err
}

// awaitsControlPlane reports whether the control plane is being created with the VPC.
func (r *Reconciler) awaitsControlPlane(ctx context.Context, s *scope) (bool, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !controlplanev1.IsCAPTControlPlane(ref) || ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return false, nil
	}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}, controlPlane)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the control plane: %w", err)
	}
	return !annotations.IsExternallyManaged(controlPlane), nil
}
