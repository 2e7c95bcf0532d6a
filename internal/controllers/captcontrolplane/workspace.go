package captcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// workspace applies the template, one minor version of an upgrade at a time.
func (r *Reconciler) workspace(ctx context.Context, s *scope) error {
	var err error
	if s.apply, err = r.Workspaces.Find(ctx, s.controlPlane); err != nil {
		return err
	}
	s.recordWorkspace()
	if s.infra == nil && infrav1.IsCAPTCluster(s.cluster.Spec.InfrastructureRef) {
		// The infrastructure step reports why. Without the VPC's ID the variables
		// of an existing control plane would change.
		return fault.Wait(controlplanev1.WaitingForInfrastructureReason, "The ID of the VPC is not known yet")
	}
	if err := r.readTemplate(ctx, s); err != nil {
		return err
	}
	if s.desired().WaitsForNodes() {
		s.hasNodes = r.seesNodes(ctx, s)
	}
	version, err := s.desired().Version()
	if err != nil {
		return err
	}
	held, err := r.hold(ctx, s, version)
	if err != nil {
		return err
	}
	if held != nil {
		version = version.Hold()
	}
	wanted, err := s.desired().Workspace(s.template, version.Next)
	if err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.Ensure(ctx, s.controlPlane, wanted); err != nil {
		return err
	}
	s.recordWorkspace()
	if outcome := workspace.Outcome(s.apply); outcome != nil || held == nil {
		return upgradeOutcome(outcome, s.controlPlane.Status.Version, version)
	}
	return held
}

// seesNodes reports whether the cluster has a node. A cluster that does not answer has
// none yet.
func (r *Reconciler) seesNodes(ctx context.Context, s *scope) bool {
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil || found == nil {
		return false
	}
	c, err := r.Workload.Client(found.Data[secret.KubeconfigDataName])
	if err != nil {
		return false
	}
	var nodes corev1.NodeList
	return c.List(ctx, &nodes, client.Limit(1)) == nil && len(nodes.Items) > 0
}

// firstNodeInterval is the delay between two checks for the first node.
const firstNodeInterval = 20 * time.Second

// seesNodesIn returns when to check again for the first node, if the template waits for
// it.
func seesNodesIn(s *scope) time.Duration {
	if s.desired().WaitsForNodes() {
		return firstNodeInterval
	}
	return 0
}

// recordWorkspace writes the names of the workspace and its connection Secret to
// the status.
func (s *scope) recordWorkspace() {
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

// upgradeOutcome describes the outcome of the workspace as a step of an upgrade,
// if the API server does not serve the target version yet. A stall is returned
// unchanged.
func upgradeOutcome(outcome error, served string, version desired.Version) error {
	current, err := kubeversion.Parse(served)
	if err != nil || !current.Less(version.Target) {
		return outcome
	}
	if _, stalled := fault.AsStalled(outcome); stalled {
		return outcome
	}
	text := fmt.Sprintf("Upgrading from %s to %s", current, version.Next)
	if version.Next != version.Target {
		text += fmt.Sprintf(" on the way to %s", version.Target)
	}
	if waiting, ok := fault.AsWaiting(outcome); ok {
		text += ": " + waiting.Message()
	}
	return fault.Wait(controlplanev1.UpgradingReason, "%s", text)
}

func workspaceMessage(s *scope) string {
	text := "WorkspaceTemplateApply " + s.apply.Name + " is applied"
	if version, err := s.desired().Version(); err == nil && version.IsBehind() {
		text += fmt.Sprintf(". The API server serves %s, which is later than spec.version %s: the cloud has upgraded it. Set spec.version to v%s.0", version.Served, version.Target, version.Served)
	}
	return text
}

// outputCredentials returns the cloud credentials for calls about the cluster that the outputs
// of the workspace name. Lent ones must not be used for what a user of this namespace chooses:
// a cluster that has the name of the Cluster, an endpoint of the control plane, or a role.
func (r *Reconciler) outputCredentials(ctx context.Context, s *scope) (*workspace.Credentials, error) {
	if err := r.readTemplate(ctx, s); err != nil {
		return nil, err
	}
	credentials, err := r.Workspaces.OutputCredentials(ctx, s.apply, s.template)
	if err != nil || credentials.Lent == nil {
		return credentials, err
	}
	var name string
	if err := workspace.Output(s.apply, desired.ClusterNameOutput, &name); err != nil || name == "" {
		return nil, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty or sensitive: with a lent provider config it must be the name of the EKS cluster", desired.ClusterNameOutput, s.apply.Name)
	}
	var address string
	_ = workspace.Output(s.apply, desired.EndpointOutput, &address)
	if _, err := desired.ParseEndpoint(address); err != nil {
		return nil, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty, sensitive or no endpoint: with a lent provider config it must be the endpoint of the EKS cluster", desired.EndpointOutput, s.apply.Name)
	}
	return credentials, credentials.CheckRole(s.kubeconfigConfig().RoleARN)
}

// credentials returns the cloud credentials of the control plane's runs.
func (r *Reconciler) credentials(ctx context.Context, s *scope) (*workspace.Credentials, error) {
	if err := r.readTemplate(ctx, s); err != nil {
		return nil, err
	}
	return r.Workspaces.Credentials(ctx, s.controlPlane.Namespace, s.template)
}

func (s *scope) isTrue(condition string) bool { return conditions.IsTrue(s.controlPlane, condition) }
