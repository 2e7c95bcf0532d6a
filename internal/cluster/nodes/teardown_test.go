package nodes_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestWaitForTeardown(t *testing.T) {
	deleting := func(kind string) *clusterv1.Cluster {
		now := metav1.NewTime(time.Now())
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", DeletionTimestamp: &now}}
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: kind, Name: "plane"}
		return cluster
	}
	living := deleting("CAPTControlPlane")
	living.DeletionTimestamp = nil
	for name, tc := range map[string]struct {
		cluster     *clusterv1.Cluster
		initialized *bool
		gone        metav1.ConditionStatus
		waits       bool
	}{
		"no Cluster":                          {initialized: new(true)},
		"a Cluster that is not deleted":       {cluster: living, initialized: new(true)},
		"before the nodes are gone":           {cluster: deleting("CAPTControlPlane"), initialized: new(true), waits: true},
		"while nodes are deleted":             {cluster: deleting("CAPTControlPlane"), initialized: new(true), gone: metav1.ConditionFalse, waits: true},
		"when they are gone":                  {cluster: deleting("CAPTControlPlane"), initialized: new(true), gone: metav1.ConditionTrue},
		"a cluster that was never available":  {cluster: deleting("CAPTControlPlane")},
		"a control plane of another provider": {cluster: deleting("OtherControlPlane"), initialized: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			plane := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "plane"}}
			plane.Status.Initialization.ControlPlaneInitialized = tc.initialized
			if tc.gone != "" {
				conditions.Set(plane, metav1.Condition{Type: controlplanev1.AddonsGoneCondition, Status: tc.gone, Reason: "R"})
			}
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(plane).Build()
			waiting, waits := fault.AsWaiting(nodes.WaitForTeardown(t.Context(), c, tc.cluster))
			g := NewWithT(t)
			g.Expect(waits).To(Equal(tc.waits))
			if waits {
				g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForTeardownReason))
			}
		})
	}
}
