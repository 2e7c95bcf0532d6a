package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// leaderLease is the Lease that managers elect their leader by.
const leaderLease = "capt-manager-leader"

// manager looks for a manager that works: its Deployment, if it runs in the
// cluster, and the Lease of its leader.
func (d *Doctor) manager(ctx context.Context) ([]Result, error) {
	var found []Result
	var deployments appsv1.DeploymentList
	if err := d.Client.List(ctx, &deployments); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	installed := 0
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if !isManager(deployment) {
			continue
		}
		installed++
		if result := available(deployment); result != nil {
			found = append(found, *result)
		}
	}
	var leases coordinationv1.LeaseList
	if err := d.Client.List(ctx, &leases); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	leader := ""
	for i := range leases.Items {
		lease := &leases.Items[i]
		if lease.Name != leaderLease || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			continue
		}
		if result := d.expired(lease); result != nil {
			found = append(found, *result)
		} else {
			leader = *lease.Spec.HolderIdentity
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case leader != "":
		return []Result{{Status: OK, Message: "the leader is " + leader}}, nil
	case installed > 0:
		return []Result{{
			Status: Warn, Message: "the manager runs and no leader is elected yet",
			Mend: "wait a minute; if it stays, kubectl logs -n capt-system deployment/capt-controller-manager",
		}}, nil
	default:
		return []Result{{
			Status: Warn, Message: "no manager is to be seen: nothing is carried out unless one runs outside, without --leader-elect", Mend: installCAPT,
		}}, nil
	}
}

// isManager tells CAPT's Deployment by what its container is told.
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

func available(deployment *appsv1.Deployment) *Result {
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	result := &Result{Status: Fail, Object: nameOf("Deployment", deployment)}
	at := fmt.Sprintf("-n %s deployment/%s", deployment.Namespace, deployment.Name)
	switch {
	case wanted == 0:
		result.Message, result.Mend = "the manager is scaled to 0", "kubectl scale "+at+" --replicas=1"
	case deployment.Status.AvailableReplicas == 0:
		result.Message, result.Mend = fmt.Sprintf("none of %d pods is available", wanted), "kubectl describe "+at+"; kubectl logs "+at
	case deployment.Status.AvailableReplicas < wanted:
		result.Status = Warn
		result.Message, result.Mend = fmt.Sprintf("%d of %d pods are available", deployment.Status.AvailableReplicas, wanted), "kubectl describe "+at
	default:
		return nil
	}
	return result
}

// grace is how long a Lease may be overdue before its holder counts as gone.
const grace = 30 * time.Second

func (d *Doctor) expired(lease *coordinationv1.Lease) *Result {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return nil
	}
	age := d.Now().Sub(lease.Spec.RenewTime.Time)
	if age <= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second+grace {
		return nil
	}
	return &Result{
		Status: Fail, Object: nameOf("Lease", lease),
		Message: fmt.Sprintf("the leader %s has not been heard of for %s: nothing is carried out", *lease.Spec.HolderIdentity, ago(age)),
		Mend:    fmt.Sprintf("start the manager again: kubectl rollout restart -n %s deployment/capt-controller-manager", lease.Namespace),
	}
}
