package captcontrolplane

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one look at a control plane.
type scope struct {
	controlPlane *controlplanev1.CAPTControlPlane
	cluster      *clusterv1.Cluster
	now          time.Time
	// addressed tells that Cluster API can read the endpoint by now.
	addressed bool

	// infra is nil when another provider makes the infrastructure.
	infra *infrav1.CAPTCluster
	// template and apply are filled by the step of the workspace.
	template *infrav1.WorkspaceTemplate
	apply    *infrav1.WorkspaceTemplateApply
	// spotRoleCreated tells that the role was missing.
	spotRoleCreated bool
	// config is the kubeconfig of the workload cluster, renewAt when it is to be
	// made anew.
	config  []byte
	renewAt time.Time
}

// scope waits for the Cluster that owns the control plane. One that is being
// deleted needs none.
func (r *Reconciler) scope(_ context.Context, controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	owned := cluster != nil && util.IsOwnedByObject(controlPlane, cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind())
	if !owned && controlPlane.DeletionTimestamp.IsZero() {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "No Cluster owns this CAPTControlPlane: name it in spec.controlPlaneRef of a Cluster")
	}
	controlPlane.Status.ExternalManagedControlPlane = new(true)
	return &scope{controlPlane: controlPlane, cluster: cluster, now: r.Now(), addressed: controlPlane.Spec.ControlPlaneEndpoint.IsValid()}, nil
}

// clusterName is the name of the Cluster, which may be gone.
func (s *scope) clusterName() string {
	if s.cluster != nil {
		return s.cluster.Name
	}
	return s.controlPlane.Labels[clusterv1.ClusterNameLabel]
}

// desired returns what decides about the workspace.
func (s *scope) desired() *desired.ControlPlane {
	return &desired.ControlPlane{Cluster: s.cluster, ControlPlane: s.controlPlane, Infra: s.infra, Existing: s.apply}
}

// region returns the region of the control plane.
func (s *scope) region() string { return s.desired().Region() }

// source returns how the kubeconfig is created.
func (s *scope) source() controlplanev1.KubeconfigConfig { return s.desired().Kubeconfig() }
