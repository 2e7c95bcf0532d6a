package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/kubernetes/leader"
)

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

// managerResults returns the results for the managers: one Deployment of all providers, or
// one of each, with a leader each. A manager outside of the cluster that elects no leader is
// known by the host and port at which it serves webhooks.
func managerResults(deployments []appsv1.Deployment, leases []coordinationv1.Lease, served string, now time.Time) []Result {
	var problems []Result
	var leaders []string
	installed := 0
	for i := range deployments {
		d := &deployments[i]
		if !IsManager(d) {
			continue
		}
		installed++
		problem := deploymentProblem(d)
		if problem != nil {
			problems = append(problems, *problem)
		}
		lease := leaseOf(d, leases)
		switch {
		case lease != nil && leaseProblem(lease, now) != nil:
			stale := leaseProblem(lease, now)
			stale.Fix = fmt.Sprintf("restart the manager: kubectl rollout restart -n %s deployment/%s", d.Namespace, d.Name)
			problems = append(problems, *stale)
		case lease != nil:
			leaders = append(leaders, *lease.Spec.HolderIdentity)
		case problem == nil && !slices.Contains(arguments(d), "--leader-elect=false"):
			problems = append(problems, Result{
				Status: Warn, Object: objectName("Deployment", d), Message: "the manager is running, but no leader is elected yet",
				Fix: fmt.Sprintf("wait a minute; if the problem persists, run kubectl logs -n %s deployment/%s --all-pods", d.Namespace, d.Name),
			})
		}
	}
	switch {
	case len(problems) > 0:
		return problems
	case len(leaders) == 1:
		return []Result{{Status: OK, Message: "the leader is " + leaders[0]}}
	case len(leaders) > 1:
		return []Result{{Status: OK, Message: "the leaders are " + strings.Join(leaders, ", ")}}
	case installed > 0:
		return []Result{{Status: OK, Message: "the manager is running without leader election"}}
	default:
		return outsideResults(leases, served, now)
	}
}

// outsideResults returns the results for a manager that has no Deployment.
func outsideResults(leases []coordinationv1.Lease, served string, now time.Time) []Result {
	lease := electedLease(leases, "", leader.LeaseName(nil))
	if lease != nil {
		if stale := leaseProblem(lease, now); stale != nil {
			stale.Fix = "restart the manager, which has no Deployment in this cluster"
			return []Result{*stale}
		}
		return []Result{{Status: OK, Message: "the leader is " + *lease.Spec.HolderIdentity}}
	}
	if served != "" {
		return []Result{{Status: OK, Message: "a manager outside of the cluster serves the webhooks at " + served}}
	}
	return []Result{{
		Status: Warn, Message: "no manager found: nothing is reconciled unless one runs outside of the cluster without --leader-elect", Fix: installCAPT,
	}}
}

// leaseOf returns the Lease of a Deployment's leader, or nil if none is elected.
func leaseOf(deployment *appsv1.Deployment, leases []coordinationv1.Lease) *coordinationv1.Lease {
	var providers []string
	for _, arg := range arguments(deployment) {
		if value, found := strings.CutPrefix(arg, "--providers="); found {
			providers = strings.Split(value, ",")
		}
	}
	return electedLease(leases, deployment.Namespace, leader.LeaseName(providers))
}

// electedLease returns the Lease with a name that has a holder, in a namespace if one is
// given, or nil.
func electedLease(leases []coordinationv1.Lease, namespace, name string) *coordinationv1.Lease {
	for i := range leases {
		lease := &leases[i]
		if lease.Name == name && (namespace == "" || lease.Namespace == namespace) && ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			return lease
		}
	}
	return nil
}

// IsManager reports whether a Deployment is a manager of CAPT, by the labels of the
// manifests or the arguments of its containers.
func IsManager(deployment *appsv1.Deployment) bool {
	labels := deployment.Labels
	if strings.HasSuffix(labels[clusterv1.ProviderNameLabel], "-capt") && labels["control-plane"] == "controller-manager" {
		return true
	}
	return slices.ContainsFunc(arguments(deployment), func(arg string) bool {
		return strings.HasPrefix(arg, "--runner-image") || strings.HasPrefix(arg, "--executor=")
	})
}

// arguments returns the arguments of a Deployment's containers.
func arguments(deployment *appsv1.Deployment) []string {
	var all []string
	for _, c := range deployment.Spec.Template.Spec.Containers {
		all = append(all, c.Args...)
	}
	return all
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

// leaseProblem returns a result for a leader that does not renew its Lease, without a fix,
// else nil.
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
	}
}
