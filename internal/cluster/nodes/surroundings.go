// Package nodes is what the controllers of machines and of machine pools share:
// what a node is told of its cluster, what it waits for, and what the cluster
// tells of its nodes.
package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// owned are the variables that fields of machines and pools decide, so that no
// output of the control plane's workspace is taken for them.
var owned = map[string]bool{
	"name": true, "cluster_name": true, "kubernetes_version": true, "bootstrap_secret_name": true,
	"instance_type": true, "instance_types": true, "labels": true, "taints": true, "tags": true,
	"availability_zone": true, "availability_zones": true, "ami_type": true, "capacity_type": true, "disk_size": true,
	"min_size": true, "max_size": true, "desired_size": true, "max_unavailable": true, "max_unavailable_percentage": true,
}

// Surroundings is what is known of the cluster that a node belongs to.
type Surroundings struct {
	// ClusterName is what the cluster is called where it runs.
	ClusterName string
	// Version is the minor that the API server speaks, or empty.
	Version string
	// ControlPlaneLeaving tells that the control plane is being deleted.
	ControlPlaneLeaving bool

	values map[string]any
}

// Look reads what is known of a cluster. What other providers make is not.
func Look(ctx context.Context, c client.Reader, workspaces *workspace.Keeper, cluster *clusterv1.Cluster) (*Surroundings, error) {
	s := &Surroundings{ClusterName: cluster.Name, values: map[string]any{}}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	found, err := get(ctx, c, cluster, cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion.Group, "CAPTControlPlane", controlPlane)
	if err != nil {
		return nil, err
	}
	if found {
		apply, err := workspaces.Find(ctx, controlPlane)
		if err != nil {
			return nil, err
		}
		if err := s.readControlPlane(controlPlane, apply); err != nil {
			return nil, err
		}
	}
	infra := &infrav1.CAPTCluster{}
	found, err = get(ctx, c, cluster, cluster.Spec.InfrastructureRef, infrav1.GroupVersion.Group, "CAPTCluster", infra)
	if err != nil {
		return nil, err
	}
	if found {
		s.readInfrastructure(infra)
	}
	if endpoint := cluster.Spec.ControlPlaneEndpoint; endpoint.IsValid() {
		s.add("cluster_endpoint", "https://"+endpoint.String())
	}
	return s, nil
}

// Known is what is known of a cluster from its objects and the workspace of its
// control plane. Objects of other providers are nil.
func Known(cluster *clusterv1.Cluster, controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply, infra *infrav1.CAPTCluster) (*Surroundings, error) {
	s := &Surroundings{ClusterName: cluster.Name, values: map[string]any{}}
	if controlPlane != nil {
		if err := s.readControlPlane(controlPlane, apply); err != nil {
			return nil, err
		}
	}
	if infra != nil {
		s.readInfrastructure(infra)
	}
	return s, nil
}

// get reads an object of a Cluster if it is of the kind.
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

// readControlPlane takes over the outputs of the control plane's workspace.
func (s *Surroundings) readControlPlane(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) error {
	s.ControlPlaneLeaving = !controlPlane.DeletionTimestamp.IsZero()
	version := controlPlane.Status.Version
	if version == "" {
		version = controlPlane.Spec.Version
	}
	s.Version = Minor(version)
	if config := controlPlane.Spec.ControlPlaneConfig; config != nil && config.Region != "" {
		s.add("region", config.Region)
	}
	if apply == nil {
		return nil
	}
	for name, value := range apply.Status.Outputs {
		if !owned[name] && string(value.Raw) != "null" {
			s.add(name, value)
		}
	}
	return workspace.Output(apply, "cluster_name", &s.ClusterName)
}

func (s *Surroundings) readInfrastructure(infra *infrav1.CAPTCluster) {
	s.add("region", infra.Spec.Region)
	if infra.Status.VPCID != "" {
		s.values["vpc_id"] = infra.Status.VPCID
	}
	if len(infra.Status.SubnetIDs) > 0 {
		s.values["subnet_ids"] = infra.Status.SubnetIDs
	}
}

// add takes a value unless there is one.
func (s *Surroundings) add(name string, value any) {
	if _, found := s.values[name]; !found && value != "" {
		s.values[name] = value
	}
}

// Offer gives a template what it takes of the surroundings. What a node was
// given when it was made stays as it was: a change could replace it.
func (s *Surroundings) Offer(values *workspace.Values, given map[string]infrav1.Value) {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		Keep(values, given, name, s.values[name])
	}
}

// Keep offers a value, or the one that was given before.
func Keep(values *workspace.Values, given map[string]infrav1.Value, name string, value any) {
	if before, found := given[name]; found {
		value = before
	}
	values.Offer(name, value)
}
