package nodes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// FindWorkspace returns the workspace of a machine or pool, or nil if it has none, and
// what is known about the cluster. It waits for the preconditions of a new workspace.
func FindWorkspace(ctx context.Context, c client.Reader, workspaces *workspace.Keeper, owner client.Object, preconditions Preconditions) (*infrav1.WorkspaceTemplateApply, *desired.ClusterInfo, error) {
	apply, err := workspaces.Find(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	if apply == nil {
		if err := preconditions.Check(); err != nil {
			return nil, nil, err
		}
	}
	info, err := ClusterInfo(ctx, c, workspaces, preconditions.Cluster)
	return apply, info, err
}

// ClusterInfo reads what is known about the cluster that nodes join. Objects of
// other providers are not read.
func ClusterInfo(ctx context.Context, c client.Reader, workspaces *workspace.Keeper, cluster *clusterv1.Cluster) (*desired.ClusterInfo, error) {
	controlPlane, infra := &controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}
	var apply *infrav1.WorkspaceTemplateApply
	found, err := get(ctx, c, cluster, cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion.Group, "CAPTControlPlane", controlPlane)
	if err != nil {
		return nil, err
	}
	if !found {
		controlPlane = nil
	} else if apply, err = workspaces.Find(ctx, controlPlane); err != nil {
		return nil, err
	}
	found, err = get(ctx, c, cluster, cluster.Spec.InfrastructureRef, infrav1.GroupVersion.Group, "CAPTCluster", infra)
	if err != nil {
		return nil, err
	}
	if !found {
		infra = nil
	}
	info, err := desired.NewClusterInfo(cluster, controlPlane, apply, infra)
	if err != nil || infra == nil || infra.Spec.WorkspaceTemplateRef == nil {
		return info, err
	}
	created, err := workspaces.Find(ctx, infra)
	if err != nil {
		return nil, err
	}
	info.AddOutputs(desired.SharedOutputs(created))
	return info, nil
}

// get reads an object that a Cluster refers to. It reports false if the object
// does not exist or has another kind.
func get(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, ref clusterv1.ContractVersionedObjectReference, group, kind string, into client.Object) (bool, error) {
	if ref.Kind != kind || ref.APIGroup != group {
		return false, nil
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	return true, nil
}
