package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// policies reports ClusterWorkspacePolicies that a manager in the cluster does not enforce. They
// may be older than its installation: its webhook refuses new ones.
func (d *Doctor) policies(ctx context.Context) ([]Result, error) {
	var policies infrav1.ClusterWorkspacePolicyList
	if err := d.Client.List(ctx, &policies); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing ClusterWorkspacePolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		return orOK(nil, "there are no ClusterWorkspacePolicies"), nil
	}
	var deployments appsv1.DeploymentList
	if err := d.Client.List(ctx, &deployments); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	var problems []Result
	for i := range deployments.Items {
		manager := &deployments.Items[i]
		if !IsManager(manager) || enforcesClusterPolicies(manager) {
			continue
		}
		for j := range policies.Items {
			problems = append(problems, Result{
				Status: Fail, Object: objectName("ClusterWorkspacePolicy", &policies.Items[j]),
				Message: fmt.Sprintf("the manager %s/%s runs with --cluster-policies=false and does not enforce it", manager.Namespace, manager.Name),
				Fix:     "write a WorkspacePolicy in the namespace of the manager and delete this policy, or set flags.cluster-policies=true of the chart",
			})
		}
	}
	return orOK(problems, "%d ClusterWorkspacePolicies are enforced", len(policies.Items)), nil
}

// enforcesClusterPolicies reports whether a manager lets ClusterWorkspacePolicies decide.
func enforcesClusterPolicies(manager *appsv1.Deployment) bool {
	enforces := true
	for _, c := range manager.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if value, found := strings.CutPrefix(strings.TrimLeft(arg, "-"), "cluster-policies="); found {
				// The last one counts, and a manager with an invalid one does not start.
				enforces, _ = strconv.ParseBool(value)
			}
		}
	}
	return enforces
}
