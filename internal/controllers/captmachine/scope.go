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

// scope is what one reconcile of a machine has read.
type scope struct {
	machine *infrav1.CAPTMachine
	// cluster is nil only for a machine that is being deleted.
	cluster *clusterv1.Cluster
	// owner is the owning Machine of Cluster API, or nil.
	owner *clusterv1.Machine
	now   time.Time
	// providerIDWritten reports whether the API server has the provider ID.
	providerIDWritten bool

	// The first step sets these.
	info  *desired.ClusterInfo
	pool  *infrav1.CAPTMachinePool
	apply *infrav1.WorkspaceTemplateApply
	// replacement is the provider ID of the instance that replaced the machine's, or
	// empty.
	replacement string
	// updating describes what an update of an existing instance waits for.
	updating string

	node *corev1.Node
	// drainReason and drainMessage describe why the drain is complete.
	drainReason, drainMessage string
}

// scope waits for the Cluster and the owning Machine. A machine that is being
// deleted needs neither.
func (r *Reconciler) scope(ctx context.Context, machine *infrav1.CAPTMachine, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{machine: machine, cluster: cluster, now: r.Now(), providerIDWritten: machine.Spec.ProviderID != ""}
	if !machine.DeletionTimestamp.IsZero() {
		return s, nil
	}
	ownership := ownershipOf(machine.OwnerReferences)
	if ownership == pending {
		return nil, fault.Wait(infrav1.WaitingForMachineReason, "Cluster API has not created the Machine of this CAPTMachine yet")
	}
	if cluster == nil {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTMachine has no Cluster: set the label %s", clusterv1.ClusterNameLabel)
	}
	if ownership == owned {
		owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
		switch {
		case apierrors.IsNotFound(err):
			return nil, fault.Wait(infrav1.WaitingForMachineReason, "The Machine that owns this CAPTMachine does not exist")
		case err != nil:
			return nil, fmt.Errorf("reading the owning Machine: %w", err)
		}
		s.owner = owner
	}
	return s, nil
}

// clusterKey returns the key of the Cluster, which must not be nil.
func (s *scope) clusterKey() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

// ownership is the relation of a machine to a Machine of Cluster API.
type ownership int

const (
	// standalone machines have no owner, or a CAPTMachineSet.
	standalone ownership = iota
	// pending machines were created by Cluster API, and their Machine will follow.
	pending
	// owned machines have an owning Machine.
	owned
)

// ownershipOf returns the ownership of a machine. Cluster API creates the machine
// before the Machine. Until then the owner is the object that creates both.
func ownershipOf(owners []metav1.OwnerReference) ownership {
	found := standalone
	for _, ref := range owners {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue
		}
		switch {
		case gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine":
			return owned
		case gv.Group == clusterv1.GroupVersion.Group && ref.Kind != clusterv1.ClusterKind,
			gv.Group == controlplanev1.GroupVersion.Group && ref.Kind != "CAPTControlPlane":
			found = pending
		}
	}
	return found
}
