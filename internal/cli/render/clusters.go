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
	infra := r.infrastructure(cluster)
	apply := r.controlPlane(cluster, infra)
	info, err := desired.NewClusterInfo(cluster, r.controlPlaneOf(cluster), apply, infra)
	if err != nil {
		r.problem(cluster, err)
		return
	}
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

// infrastructure renders the workspace of the VPC. It returns the CAPTCluster as it will
// be when the VPC exists, with placeholders for unknown values.
func (r *renderer) infrastructure(cluster *clusterv1.Cluster) *infrav1.CAPTCluster {
	ref := cluster.Spec.InfrastructureRef
	if !infrav1.IsCAPTCluster(ref) {
		return nil
	}
	infra := find[*infrav1.CAPTCluster](r, cluster.Namespace, ref.Name)
	if infra == nil {
		r.note("CAPTCluster %s/%s is not among the manifests", cluster.Namespace, ref.Name)
		return nil
	}
	known := infra.DeepCopy()
	known.Status.VPCID, known.Status.SubnetIDs = infra.Spec.ExistingVPCID, infra.Spec.ExistingSubnetIDs
	if infra.Spec.VPCTemplateRef != nil {
		if template := r.template(infra.Namespace, *infra.Spec.VPCTemplateRef); template != nil {
			wanted, err := (&desired.Network{Cluster: cluster, Infra: infra}).Workspace(template)
			r.workspace(infra, wanted, err, false)
		}
		known.Status.WorkspaceRef = &infrav1.LocalReference{Name: cluster.Name + "-vpc"}
		known.Status.VPCID = futureOutput("vpc_id", cluster.Name+"-vpc")
		known.Status.SubnetIDs = []string{fmt.Sprintf(futureSubnetsPrefix+"WorkspaceTemplateApply %s-vpc)", cluster.Name)}
	} else if len(known.Status.SubnetIDs) == 0 {
		known.Status.SubnetIDs = []string{futureSubnetsPrefix + "VPC " + infra.Spec.ExistingVPCID + ")"}
	}
	return known
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
func (r *renderer) controlPlane(cluster *clusterv1.Cluster, infra *infrav1.CAPTCluster) *infrav1.WorkspaceTemplateApply {
	controlPlane := r.controlPlaneOf(cluster)
	if controlPlane == nil {
		return nil
	}
	template := r.template(controlPlane.Namespace, controlPlane.Spec.WorkspaceTemplateRef)
	if template == nil {
		return nil
	}
	wanted, err := newControlPlane(cluster, controlPlane, infra, template)
	r.workspace(controlPlane, wanted, err, infra == nil)
	applied := &infrav1.WorkspaceTemplateApply{}
	applied.Status.Outputs = map[string]infrav1.Value{}
	for _, output := range template.Status.Outputs {
		// The name of the cluster is known already.
		if output.Sensitive != nil && *output.Sensitive || output.Name == "cluster_name" {
			continue
		}
		applied.Status.Outputs[output.Name] = infrav1.StringValue(futureOutput(output.Name, cluster.Name))
	}
	return applied
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
func newControlPlane(cluster *clusterv1.Cluster, controlPlane *controlplanev1.CAPTControlPlane, infra *infrav1.CAPTCluster, template *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
	d := &desired.ControlPlane{Cluster: cluster, ControlPlane: controlPlane, Infra: infra}
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
