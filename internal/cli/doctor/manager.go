package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
)

// leaderLease is the name of the Lease for the manager's leader election.
const leaderLease = "capt-manager-leader"

// manager checks the manager's Deployment, if it runs in the cluster, and the
// Lease of its leader, else whether a manager outside of the cluster serves the
// webhooks.
func (d *Doctor) manager(ctx context.Context) ([]Result, error) {
	var deployments appsv1.DeploymentList
	if err := d.Client.List(ctx, &deployments); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	var leases coordinationv1.LeaseList
	if err := d.Client.List(ctx, &leases); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	served, err := d.servedWebhooks(ctx)
	if err != nil {
		return nil, err
	}
	return managerResults(deployments.Items, leases.Items, served, d.Now()), nil
}

// managerResults returns the results for the manager. A manager outside of the cluster
// that elects no leader is known by the host and port at which it serves webhooks.
func managerResults(deployments []appsv1.Deployment, leases []coordinationv1.Lease, served string, now time.Time) []Result {
	var problems []Result
	installed := 0
	for i := range deployments {
		if !isManager(&deployments[i]) {
			continue
		}
		installed++
		if problem := deploymentProblem(&deployments[i]); problem != nil {
			problems = append(problems, *problem)
		}
	}
	leader := ""
	for i := range leases {
		holder := ptr.Deref(leases[i].Spec.HolderIdentity, "")
		if leases[i].Name != leaderLease || holder == "" {
			continue
		}
		if problem := leaseProblem(&leases[i], now); problem != nil {
			problems = append(problems, *problem)
		} else {
			leader = holder
		}
	}
	switch {
	case len(problems) > 0:
		return problems
	case leader != "":
		return []Result{{Status: OK, Message: "the leader is " + leader}}
	case installed > 0:
		return []Result{{
			Status: Warn, Message: "the manager is running, but no leader is elected yet",
			Fix: "wait a minute; if the problem persists, run kubectl logs -n capt-system deployment/capt-controller-manager",
		}}
	case served != "":
		return []Result{{Status: OK, Message: "a manager outside of the cluster serves the webhooks at " + served}}
	default:
		return []Result{{
			Status: Warn, Message: "no manager found: nothing is reconciled unless one runs outside of the cluster without --leader-elect", Fix: installCAPT,
		}}
	}
}

// isManager reports whether a Deployment is CAPT's manager, by the arguments of
// its containers.
func isManager(deployment *appsv1.Deployment) bool {
	for _, c := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--runner-image") || strings.HasPrefix(arg, "--executor=") {
				return true
			}
		}
	}
	return false
}

// deploymentProblem returns a result for a Deployment without all of its pods,
// else nil.
func deploymentProblem(deployment *appsv1.Deployment) *Result {
	desired, available := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.AvailableReplicas
	result := &Result{Status: Fail, Object: objectName("Deployment", deployment)}
	target := fmt.Sprintf("-n %s deployment/%s", deployment.Namespace, deployment.Name)
	switch {
	case desired == 0:
		result.Message, result.Fix = "the manager is scaled to 0", "kubectl scale "+target+" --replicas=1"
	case available == 0:
		result.Message, result.Fix = fmt.Sprintf("0 of %d pods are available", desired), "kubectl describe "+target+"; kubectl logs "+target
	case available < desired:
		result.Status = Warn
		result.Message, result.Fix = fmt.Sprintf("%d of %d pods are available", available, desired), "kubectl describe "+target
	default:
		return nil
	}
	return result
}

// leaseGrace is the time that a Lease may be overdue.
const leaseGrace = 30 * time.Second

// leaseProblem returns a result for a leader that does not renew its Lease, else
// nil.
func leaseProblem(lease *coordinationv1.Lease, now time.Time) *Result {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return nil
	}
	age := now.Sub(lease.Spec.RenewTime.Time)
	if age <= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second+leaseGrace {
		return nil
	}
	return &Result{
		Status: Fail, Object: objectName("Lease", lease),
		Message: fmt.Sprintf("leader %s has not renewed it for %s: nothing is reconciled", *lease.Spec.HolderIdentity, duration.HumanDuration(age)),
		Fix:     fmt.Sprintf("restart the manager: kubectl rollout restart -n %s deployment/capt-controller-manager", lease.Namespace),
	}
}
