package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestFrame_order(t *testing.T) {
	g := NewWithT(t)
	frame := (&Reconciler{}).frame()
	g.Expect(frame.Steps).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", controlplanev1.InfrastructureReadyCondition),
		HaveField("Condition", controlplanev1.SpotRoleReadyCondition),
		HaveField("Condition", controlplanev1.WorkspaceReadyCondition),
		HaveField("Condition", controlplanev1.EndpointReadyCondition),
		HaveField("Condition", controlplanev1.KubeconfigReadyCondition),
		HaveField("Condition", controlplanev1.AvailableCondition),
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", BeEmpty()),
	))
	g.Expect(frame.Delete).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", controlplanev1.GuardedCondition),
		HaveField("Condition", controlplanev1.LoadBalancersGoneCondition),
		HaveField("Condition", controlplanev1.VolumesGoneCondition),
		HaveField("Condition", controlplanev1.NodesGoneCondition),
		HaveField("Condition", controlplanev1.AddonsGoneCondition),
		HaveField("Condition", controlplanev1.MachinesGoneCondition),
		HaveField("Condition", controlplanev1.LeftoversGoneCondition),
		HaveField("Condition", infrav1.DestroyedCondition),
		HaveField("Condition", BeEmpty()),
	), "what controllers of the cluster created is deleted while they run")
}

func TestFrame_ofAClusterThatIsDeleted(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&Reconciler{}).frame().EndingSteps).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", controlplanev1.GuardedCondition),
		HaveField("Condition", controlplanev1.LoadBalancersGoneCondition),
		HaveField("Condition", controlplanev1.VolumesGoneCondition),
		HaveField("Condition", controlplanev1.NodesGoneCondition),
		HaveField("Condition", controlplanev1.AddonsGoneCondition),
	), "nothing is applied any more")
	now := metav1.Now()
	cluster, plane := &clusterv1.Cluster{}, &controlplanev1.CAPTControlPlane{}
	plane.Status.Initialization.ControlPlaneInitialized = new(true)
	g.Expect(isEnding(plane, nil)).To(BeFalse())
	g.Expect(isEnding(plane, cluster)).To(BeFalse())
	cluster.DeletionTimestamp = &now
	g.Expect(isEnding(plane, cluster)).To(BeTrue())
	g.Expect(isEnding(&controlplanev1.CAPTControlPlane{}, cluster)).To(BeFalse(), "it was never available")
	plane.DeletionTimestamp = &now
	g.Expect(isEnding(plane, cluster)).To(BeFalse(), "its own deletion has these steps too")
}

func TestFrame_renewsTheTokenOfAnInitializedClusterWhateverElseWaits(t *testing.T) {
	for _, step := range (&Reconciler{}).frame().Steps {
		g := NewWithT(t)
		if step.Condition == controlplanev1.AvailableCondition {
			return
		}
		g.Expect(step.ContinueIf).NotTo(BeNil(), step.Condition)
		for _, initialized := range []bool{false, true} {
			controlPlane := &controlplanev1.CAPTControlPlane{}
			controlPlane.Status.Initialization.ControlPlaneInitialized = &initialized
			g.Expect(step.ContinueIf(&scope{controlPlane: controlPlane})).To(Equal(initialized), step.Condition)
		}
	}
	t.Error("the step of the API server is missing")
}
