package render

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// cluster renders the objects of a cluster's topology and its workspaces.
func (r *renderer) cluster(ctx context.Context, cluster *clusterv1.Cluster) {
	if cluster.Spec.Topology.IsDefined() {
		generated, err := r.topology(ctx, cluster)
		if err != nil || generated == nil {
			r.problem(cluster, err)
			return
		}
		// The objects are used like given ones from here on.
		r.out.Objects = append(r.out.Objects, generated.objects...)
		r.objects = append(r.objects, generated.objects...)
		cluster = generated.cluster
	}
	infra, outputs := r.infrastructure(cluster)
	apply := r.controlPlane(cluster, infra, outputs)
	info, err := desired.NewClusterInfo(cluster, r.controlPlaneOf(cluster), apply, infra)
	if err != nil {
		r.problem(cluster, err)
		return
	}
	info.AddOutputs(outputs)
	facts := clusterFacts{ClusterInfo: info, incomplete: apply == nil || len(apply.Status.Outputs) == 0}
	r.pools(cluster, facts)
	r.machines(cluster, facts)
}

// clusterFacts is what is known about a cluster when its nodes are rendered.
type clusterFacts struct {
	*desired.ClusterInfo
	// incomplete reports that the outputs of the control plane are unknown. They may
	// set variables of nodes.
	incomplete bool
}

// infrastructure renders the workspace of the infrastructure. It returns the CAPTCluster as
// it will be when that exists, and the outputs that other templates can take as variables,
// with placeholders for unknown values.
func (r *renderer) infrastructure(cluster *clusterv1.Cluster) (known *infrav1.CAPTCluster, outputs map[string]infrav1.Value) {
	ref := cluster.Spec.InfrastructureRef
	if !infrav1.IsCAPTCluster(ref) {
		return nil, nil
	}
	infra := find[*infrav1.CAPTCluster](r, cluster.Namespace, ref.Name)
	if infra == nil {
		r.note("CAPTCluster %s/%s is not among the manifests", cluster.Namespace, ref.Name)
		return nil, nil
	}
	known = infra.DeepCopy()
	known.Status.VPCID, known.Status.SubnetIDs = infra.Spec.ExistingVPCID, infra.Spec.ExistingSubnetIDs
	if ref := infra.Spec.TemplateRef(); ref != nil {
		name := desired.NetworkName(cluster.Name, &infra.Spec)
		known.Status.WorkspaceRef = &infrav1.LocalReference{Name: name}
		if template := r.template(infra.Namespace, *ref); template != nil {
			wanted, err := (&desired.Network{Cluster: cluster, Infra: infra}).Workspace(template)
			r.workspace(infra, wanted, err, false)
			if infra.Spec.WorkspaceTemplateRef != nil {
				outputs = desired.SharedOutputs(futureOutputs(template, name))
			}
		}
	}
	switch {
	case infra.Spec.VPCTemplateRef != nil:
		known.Status.VPCID = futureOutput("vpc_id", known.Status.WorkspaceRef.Name)
		known.Status.SubnetIDs = []string{fmt.Sprintf(futureSubnetsPrefix+"WorkspaceTemplateApply %s)", known.Status.WorkspaceRef.Name)}
	case infra.Spec.ExistingVPCID != "" && len(known.Status.SubnetIDs) == 0:
		known.Status.SubnetIDs = []string{futureSubnetsPrefix + "VPC " + infra.Spec.ExistingVPCID + ")"}
	}
	return known, outputs
}

// futureOutputs returns a workspace with placeholders for the outputs of a template.
func futureOutputs(template *infrav1.WorkspaceTemplate, workspace string) *infrav1.WorkspaceTemplateApply {
	applied := &infrav1.WorkspaceTemplateApply{}
	applied.Status.Outputs = map[string]infrav1.Value{}
	for _, output := range template.Status.Outputs {
		// The name of the cluster is known already.
		if output.Sensitive != nil && *output.Sensitive || output.Name == "cluster_name" {
			continue
		}
		applied.Status.Outputs[output.Name] = infrav1.StringValue(futureOutput(output.Name, workspace))
	}
	return applied
}

func (r *renderer) controlPlaneOf(cluster *clusterv1.Cluster) *controlplanev1.CAPTControlPlane {
	ref := cluster.Spec.ControlPlaneRef
	if !controlplanev1.IsCAPTControlPlane(ref) {
		return nil
	}
	return find[*controlplanev1.CAPTControlPlane](r, cluster.Namespace, ref.Name)
}

// controlPlane renders the workspace of the control plane. It returns the workspace as
// it will be when it is applied, with placeholders for its outputs.
func (r *renderer) controlPlane(cluster *clusterv1.Cluster, infra *infrav1.CAPTCluster, outputs map[string]infrav1.Value) *infrav1.WorkspaceTemplateApply {
	controlPlane := r.controlPlaneOf(cluster)
	if controlPlane == nil {
		return nil
	}
	template := r.template(controlPlane.Namespace, controlPlane.Spec.WorkspaceTemplateRef)
	if template == nil {
		return nil
	}
	wanted, err := newControlPlane(template, &desired.ControlPlane{Cluster: cluster, ControlPlane: controlPlane, Infra: infra, InfraOutputs: outputs})
	r.workspace(controlPlane, wanted, err, infra == nil)
	return futureOutputs(template, cluster.Name)
}

// The placeholders of values that are known only after a run start with one of these.
const (
	futureOutputPrefix  = "(output "
	futureSubnetsPrefix = "(subnets of "
)

// futureOutput returns the placeholder of an output.
func futureOutput(name, workspace string) string {
	return fmt.Sprintf(futureOutputPrefix+"%s of WorkspaceTemplateApply %s)", name, workspace)
}

// isFuture reports whether a value is, or contains, a placeholder.
func isFuture(value infrav1.Value) bool {
	text := string(value.Raw)
	return strings.Contains(text, `"`+futureOutputPrefix) || strings.Contains(text, `"`+futureSubnetsPrefix)
}

// newControlPlane returns the workspace of a new control plane.
func newControlPlane(template *infrav1.WorkspaceTemplate, d *desired.ControlPlane) (workspace.Desired, error) {
	version, err := d.Version()
	if err != nil {
		return workspace.Desired{}, err
	}
	return d.Workspace(template, version.Next)
}

// pools renders the workspaces of a cluster's machine pools.
func (r *renderer) pools(cluster *clusterv1.Cluster, facts clusterFacts) {
	for _, owner := range all[*clusterv1.MachinePool](r) {
		ref := owner.Spec.Template.Spec.InfrastructureRef
		pool := find[*infrav1.CAPTMachinePool](r, owner.Namespace, ref.Name)
		if owner.Namespace != cluster.Namespace || owner.Spec.ClusterName != cluster.Name || ref.Kind != "CAPTMachinePool" || pool == nil {
			continue
		}
		if template := r.template(pool.Namespace, pool.Spec.WorkspaceTemplateRef); template != nil {
			wanted, err := (&desired.MachinePool{Cluster: cluster, Pool: pool, Owner: owner, Info: facts.ClusterInfo}).Workspace(template)
			r.workspace(pool, wanted, err, facts.incomplete)
		}
	}
}

// machines renders the workspaces of a cluster's machines. It leaves out the machines of
// deployments and sets, whose names are generated in the cluster.
func (r *renderer) machines(cluster *clusterv1.Cluster, facts clusterFacts) {
	for _, machine := range all[*infrav1.CAPTMachine](r) {
		if machine.Namespace != cluster.Namespace || machine.Labels[clusterv1.ClusterNameLabel] != cluster.Name {
			continue
		}
		template := r.template(machine.Namespace, machine.Spec.WorkspaceTemplateRef)
		if template == nil {
			continue
		}
		var pool *infrav1.CAPTMachinePool
		if ref := machine.Spec.NodeGroupRef; ref != nil {
			pool = find[*infrav1.CAPTMachinePool](r, machine.Namespace, ref.Name)
		}
		wanted, err := (&desired.Machine{Cluster: cluster, Machine: machine, Pool: pool, Info: facts.ClusterInfo}).Workspace(template)
		r.workspace(machine, wanted, err, facts.incomplete)
	}
}
