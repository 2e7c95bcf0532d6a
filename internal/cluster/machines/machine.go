package machines

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// Machine is the state of a CAPTMachine that decisions depend on.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Ready is false for a machine that is being deleted.
	Ready bool
	// ReadySince is when the machine became ready.
	ReadySince time.Time
	// Marked reports whether the machine has the annotation
	// cluster.x-k8s.io/delete-machine, and is deleted first.
	Marked   bool
	Deleting bool
	// DeletedAt is when the deletion of the machine was requested.
	DeletedAt time.Time
	// Problem is the reason why the node does not work, or empty, and ProblemSince
	// since when.
	Problem      string
	ProblemSince time.Time
	// Unreplaceable reports whether the machine has the annotation
	// cluster.x-k8s.io/skip-remediation.
	Unreplaceable bool
	// HasInstance reports whether the machine has an instance.
	HasInstance bool
	// Version is the minor version of the node's kubelet, or empty.
	Version string
}

// MachineOf returns the state of a CAPTMachine.
func MachineOf(m *infrav1.CAPTMachine) Machine {
	_, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]
	machine := Machine{
		Name: m.Name, UID: m.UID, Created: m.CreationTimestamp.Time,
		Marked: marked, Deleting: !m.DeletionTimestamp.IsZero(),
		HasInstance: m.Spec.ProviderID != "", Version: kubeversion.MinorOf(m.Status.Version),
	}
	if machine.Deleting {
		machine.DeletedAt = m.DeletionTimestamp.Time
	}
	_, machine.Unreplaceable = m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	if problem := m.Status.NodeProblem; problem != nil {
		machine.Problem, machine.ProblemSince = problem.Reason, problem.Since.Time
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, infrav1.ReadyCondition)
	if ready != nil && ready.Status == metav1.ConditionTrue && !machine.Deleting {
		machine.Ready, machine.ReadySince = true, ready.LastTransitionTime.Time
	}
	return machine
}

// Available reports whether the machine has been ready for minReady.
func (m Machine) Available(minReady time.Duration, now time.Time) bool {
	return m.Ready && (minReady == 0 || !m.ReadySince.Add(minReady).After(now))
}

// Counts are numbers of machines.
type Counts struct {
	Replicas, Ready, Available, Deleting int32
}

// Count counts machines.
func Count(all []Machine, minReady time.Duration, now time.Time) Counts {
	var c Counts
	for _, m := range all {
		if m.Deleting {
			c.Deleting++
			continue
		}
		c.Replicas++
		if m.Ready {
			c.Ready++
		}
		if m.Available(minReady, now) {
			c.Available++
		}
	}
	return c
}

// NextAvailable returns the time until the next ready machine becomes available.
// It returns zero if there is none.
func NextAvailable(all []Machine, minReady time.Duration, now time.Time) time.Duration {
	var next time.Duration
	for _, m := range all {
		if !m.Ready || m.Available(minReady, now) {
			continue
		}
		if wait := m.ReadySince.Add(minReady).Sub(now); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// Seconds returns the duration of an API field in seconds, or zero for nil.
func Seconds(n *int32) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}
