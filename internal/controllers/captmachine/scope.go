package captmachine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one look at a machine.
type scope struct {
	machine *infrav1.CAPTMachine
	// cluster is nil only for a machine that is being deleted.
	cluster *clusterv1.Cluster
	// owner is the Cluster API Machine above, if any.
	owner *clusterv1.Machine
	now   time.Time
	// identified tells that Cluster API can read the provider ID by now.
	identified bool

	// What the first step fills in.
	info  *desired.ClusterInfo
	pool  *infrav1.CAPTMachinePool
	apply *infrav1.WorkspaceTemplateApply
	// updating tells what an instance that is there waits for.
	updating string

	node *corev1.Node
	// drainReason and drainMessage tell why a drain counts as done.
	drainReason, drainMessage string
}

// scope waits for the Cluster and the Machine that a machine belongs to. One
// that is being deleted needs neither.
func (r *Reconciler) scope(ctx context.Context, machine *infrav1.CAPTMachine, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{machine: machine, cluster: cluster, now: r.Now(), identified: machine.Spec.ProviderID != ""}
	if !machine.DeletionTimestamp.IsZero() {
		return s, nil
	}
	custody := custodyOf(machine.OwnerReferences)
	if custody == awaited {
		return nil, fault.Wait(infrav1.WaitingForMachineReason, "Cluster API has not made the Machine of this CAPTMachine yet")
	}
	if cluster == nil {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTMachine belongs to no Cluster: name one in the label %s", clusterv1.ClusterNameLabel)
	}
	if custody == driven {
		owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
		switch {
		case apierrors.IsNotFound(err):
			return nil, fault.Wait(infrav1.WaitingForMachineReason, "The Machine that owns this CAPTMachine does not exist")
		case err != nil:
			return nil, fmt.Errorf("reading the Machine: %w", err)
		}
		s.owner = owner
	}
	return s, nil
}

// clusterKey names the Cluster, which must be there.
func (s *scope) clusterKey() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

// custody tells who is above a machine.
type custody int

const (
	// alone is a machine below a CAPTMachineSet, or below nobody.
	alone custody = iota
	// awaited is a machine that Cluster API has made, but whose Machine is not
	// there yet.
	awaited
	// driven is a machine below a Cluster API Machine.
	driven
)

// custodyOf reads from the owners who is above a machine. Cluster API makes the
// machine before the Machine: until then the owner is what makes both.
func custodyOf(owners []metav1.OwnerReference) custody {
	found := alone
	for _, ref := range owners {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue
		}
		switch {
		case gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine":
			return driven
		case gv.Group == clusterv1.GroupVersion.Group && ref.Kind != clusterv1.ClusterKind,
			gv.Group == controlplanev1.GroupVersion.Group && ref.Kind != "CAPTControlPlane":
			found = awaited
		}
	}
	return found
}
