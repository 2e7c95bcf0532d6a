package captcontrolplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// versionVariable takes the Kubernetes version, as a minor such as 1.33.
const versionVariable = "kubernetes_version"

// The outputs that a control plane is read from.
const (
	endpointOutput    = "cluster_endpoint"
	nameOutput        = "cluster_name"
	authorityOutput   = "cluster_certificate_authority_data"
	defaultKubeconfig = "kubeconfig"
)

// workspace runs the template, and steps through the minors of an upgrade.
func (r *Reconciler) workspace(ctx context.Context, s *scope) error {
	var err error
	if s.apply, err = r.Workspaces.Find(ctx, s.controlPlane); err != nil {
		return err
	}
	s.note()
	if s.infra == nil && isOurs(s.cluster.Spec.InfrastructureRef) {
		// The first step has said so: nothing is changed without the VPC.
		return fault.Wait(controlplanev1.WaitingForInfrastructureReason, "The VPC is not known")
	}
	if err := r.readTemplate(ctx, s); err != nil {
		return err
	}
	target, next, err := s.version()
	if err != nil {
		return err
	}
	held, err := r.hold(ctx, s, &next)
	if err != nil {
		return err
	}
	wanted, err := s.wanted(next)
	if err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.Ensure(ctx, s.controlPlane, wanted); err != nil {
		return err
	}
	s.note()
	if outcome := workspace.Outcome(s.apply); outcome != nil || held == nil {
		return s.upgrading(outcome, target, next)
	}
	return held
}

// wanted is the workspace at a version.
func (s *scope) wanted(next minor) (workspace.Wanted, error) {
	variables, err := s.variables(next)
	if err != nil {
		return workspace.Wanted{}, err
	}
	return workspace.Wanted{
		Name: s.cluster.Name, Cluster: s.cluster.Name,
		Connection: func(name string) string { return name + "-eks-connection" },
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: s.controlPlane.Spec.WorkspaceTemplateRef, Variables: variables,
			RequiredOutputs: s.requiredOutputs(), WaitForWorkspaces: s.waitForWorkspaces(), Timeout: s.timeout(),
		},
	}, nil
}

// Workspace is the workspace that makes a new control plane. Without
// infrastructure of CAPT's own infra is nil.
func Workspace(cluster *clusterv1.Cluster, controlPlane *controlplanev1.CAPTControlPlane, infra *infrav1.CAPTCluster, template *infrav1.WorkspaceTemplate) (workspace.Wanted, error) {
	s := &scope{cluster: cluster, controlPlane: controlPlane, infra: infra, template: template}
	_, next, err := s.version()
	if err != nil {
		return workspace.Wanted{}, err
	}
	return s.wanted(next)
}

// note shows which workspace this is about.
func (s *scope) note() {
	if s.apply == nil {
		return
	}
	s.controlPlane.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	s.controlPlane.Status.ConnectionSecretName = s.apply.Status.ConnectionSecretName
}

func (r *Reconciler) readTemplate(ctx context.Context, s *scope) error {
	if s.template != nil {
		return nil
	}
	var err error
	s.template, err = r.Workspaces.Template(ctx, s.controlPlane.Namespace, s.controlPlane.Spec.WorkspaceTemplateRef)
	return err
}

// version tells where the version is to end, and which minor is next. What was
// asked of the workspace is the record of how far an upgrade is: it outlives a
// restart, and a move to another management cluster.
func (s *scope) version() (target, next minor, err error) {
	target, err = minorOf(s.controlPlane.Spec.Version)
	if err != nil {
		return target, next, fault.Stall(infrav1.InvalidVariableReason, "spec.version is no version: write one such as v1.33.0")
	}
	asked, err := s.asked()
	if err != nil {
		return target, next, err
	}
	if asked != nil && target.less(*asked) {
		return target, next, fault.Stall(controlplanev1.DowngradeRefusedReason, "A control plane cannot be downgraded from %s to %s: set spec.version to %s or later", asked, target, asked)
	}
	return target, nextMinor(target, asked, asked != nil && s.reached(*asked)), nil
}

func (s *scope) asked() (*minor, error) {
	if s.apply == nil {
		return nil, nil
	}
	value, found := s.apply.Spec.Variables[versionVariable]
	if !found {
		return nil, nil
	}
	asked, err := minorOf(value.String())
	if err != nil {
		return nil, fmt.Errorf("reading variable %s of workspace %s: %w", versionVariable, s.apply.Name, err)
	}
	return &asked, nil
}

// reached tells whether the workspace is applied and the API server speaks the
// version.
func (s *scope) reached(asked minor) bool {
	if workspace.Outcome(s.apply) != nil {
		return false
	}
	at, err := minorOf(s.controlPlane.Status.Version)
	return err == nil && !at.less(asked)
}

// upgrading words the outcome of the workspace as a step of an upgrade.
func (s *scope) upgrading(outcome error, target, next minor) error {
	at, err := minorOf(s.controlPlane.Status.Version)
	if err != nil || !at.less(target) {
		return outcome
	}
	if _, stalled := fault.AsStalled(outcome); stalled {
		return outcome
	}
	text := fmt.Sprintf("Raising %s to %s", at, next)
	if next != target {
		text += fmt.Sprintf(" on the way to %s", target)
	}
	if waiting, ok := fault.AsWaiting(outcome); ok {
		text += ": " + waiting.Message()
	}
	return fault.Wait(controlplanev1.UpgradingReason, "%s", text)
}

// variables is what the template is given, by the names that the API documents.
func (s *scope) variables(next minor) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(s.template)
	if err != nil {
		return nil, err
	}
	spec := &s.controlPlane.Spec
	if _, found := spec.Variables[versionVariable]; found {
		return nil, fault.Stall(infrav1.InvalidVariableReason, "spec.variables.%s is not yours to set: set spec.version", versionVariable)
	}
	values.Give(nameOutput, s.cluster.Name)
	values.Offer("region", s.region())
	if s.infra != nil {
		values.Give("vpc_id", s.infra.Status.VPCID)
		values.Give("subnet_ids", s.infra.Status.SubnetIDs)
	}
	values.Demand("spec.version", versionVariable, next.String())
	if len(spec.AdditionalTags) > 0 {
		values.Demand("spec.additionalTags", "tags", spec.AdditionalTags)
	}
	if c := spec.ControlPlaneConfig; c != nil {
		demandConfig(values, c)
	}
	values.Override(spec.Variables)
	return values.Result()
}

func demandConfig(values *workspace.Values, c *controlplanev1.ControlPlaneConfig) {
	const path = "spec.controlPlaneConfig."
	if a := c.EndpointAccess; a != nil {
		if a.Public != nil {
			values.Demand(path+"endpointAccess.public", "endpoint_public_access", *a.Public)
		}
		if a.Private != nil {
			values.Demand(path+"endpointAccess.private", "endpoint_private_access", *a.Private)
		}
		if len(a.PublicCIDRs) > 0 {
			values.Demand(path+"endpointAccess.publicCIDRs", "endpoint_public_access_cidrs", a.PublicCIDRs)
		}
	}
	if len(c.Addons) > 0 {
		addons := map[string]map[string]string{}
		for _, addon := range c.Addons {
			settings := map[string]string{}
			if addon.Version != "" {
				settings["version"] = addon.Version
			}
			if addon.ConfigurationValues != "" {
				settings["configuration_values"] = addon.ConfigurationValues
			}
			addons[addon.Name] = settings
		}
		values.Demand(path+"addons", "cluster_addons", addons)
	}
}

// requiredOutputs are what endpoint and kubeconfig are read from.
func (s *scope) requiredOutputs() []string {
	if source := s.source(); source.Source == controlplanev1.KubeconfigSourceOutput {
		return []string{endpointOutput, kubeconfigOutput(source)}
	}
	return []string{endpointOutput, authorityOutput}
}

func kubeconfigOutput(source controlplanev1.KubeconfigConfig) string {
	if source.OutputName != "" {
		return source.OutputName
	}
	return defaultKubeconfig
}

// waitForWorkspaces puts the run after that of the VPC, if CAPT makes it.
func (s *scope) waitForWorkspaces() []infrav1.ObjectReference {
	if s.infra == nil || s.infra.Status.WorkspaceRef == nil {
		return nil
	}
	return []infrav1.ObjectReference{{Name: s.infra.Status.WorkspaceRef.Name}}
}

func workspaceMessage(s *scope) string {
	return "WorkspaceTemplateApply " + s.apply.Name + " is applied"
}

// credentials are those of the runs that make the control plane.
func (r *Reconciler) credentials(ctx context.Context, s *scope) (*workspace.Credentials, error) {
	if err := r.readTemplate(ctx, s); err != nil {
		return nil, err
	}
	return r.Workspaces.Credentials(ctx, s.controlPlane.Namespace, s.template)
}

func (s *scope) isTrue(condition string) bool { return conditions.IsTrue(s.controlPlane, condition) }

// timeout bounds the run, if the person bounds it.
func (s *scope) timeout() *metav1.Duration {
	if c := s.controlPlane.Spec.ControlPlaneConfig; c != nil && c.Timeouts != nil {
		return c.Timeouts.Create
	}
	return nil
}
