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

// scope holds what one reconciliation of a control plane reads.
type scope struct {
	controlPlane *controlplanev1.CAPTControlPlane
	cluster      *clusterv1.Cluster
	now          time.Time
	// endpointPublished reports whether the endpoint was written before this
	// reconciliation, so that Cluster API can read it.
	endpointPublished bool

	// infra is nil if another provider creates the infrastructure.
	infra *infrav1.CAPTCluster
	// infraOutputs are the outputs of the infrastructure for variables of the template.
	infraOutputs map[string]infrav1.Value
	// template and apply are set by the workspace step.
	template *infrav1.WorkspaceTemplate
	apply    *infrav1.WorkspaceTemplateApply
	// hasNodes reports whether a node was seen, for templates that wait for the first.
	hasNodes bool
	// spotRoleCreated reports whether this reconciliation created the role.
	spotRoleCreated bool
	// kubeconfig is the kubeconfig of the workload cluster.
	kubeconfig []byte
	// notes has what deletion steps that have passed report, by their condition.
	notes map[string]note
	// renewAt is the time to replace the token in it, or zero.
	renewAt time.Time
}

// scope returns the scope of a reconciliation. It waits for the owning Cluster,
// unless the control plane is being deleted.
func (r *Reconciler) scope(_ context.Context, controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	owned := cluster != nil && util.IsOwnedByObject(controlPlane, cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind())
	if !owned && controlPlane.DeletionTimestamp.IsZero() {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "No Cluster owns this CAPTControlPlane: name it in spec.controlPlaneRef of a Cluster")
	}
	controlPlane.Status.ExternalManagedControlPlane = new(true)
	return &scope{controlPlane: controlPlane, cluster: cluster, now: r.Now(), notes: map[string]note{}, endpointPublished: controlPlane.Spec.ControlPlaneEndpoint.IsValid()}, nil
}

// clusterName returns the name of the Cluster, which may be deleted already.
func (s *scope) clusterName() string {
	if s.cluster != nil {
		return s.cluster.Name
	}
	return s.controlPlane.Labels[clusterv1.ClusterNameLabel]
}

// desired returns what decides about the workspace.
func (s *scope) desired() *desired.ControlPlane {
	return &desired.ControlPlane{Cluster: s.cluster, ControlPlane: s.controlPlane, Infra: s.infra, InfraOutputs: s.infraOutputs, Existing: s.apply, HasNodes: s.hasNodes}
}

// region returns the region of the control plane.
func (s *scope) region() string { return s.desired().Region() }

// kubeconfigConfig returns how the kubeconfig is created.
func (s *scope) kubeconfigConfig() controlplanev1.KubeconfigConfig { return s.desired().Kubeconfig() }
