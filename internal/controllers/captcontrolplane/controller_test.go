package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestFrame_order(t *testing.T) {
	g := NewWithT(t)
	frame := (&Reconciler{}).frame()
	g.Expect(frame.Steps).To(HaveExactElements(
		HaveField("Condition", controlplanev1.InfrastructureReadyCondition),
		HaveField("Condition", controlplanev1.SpotRoleReadyCondition),
		HaveField("Condition", controlplanev1.WorkspaceReadyCondition),
		HaveField("Condition", controlplanev1.EndpointReadyCondition),
		HaveField("Condition", controlplanev1.KubeconfigReadyCondition),
		HaveField("Condition", controlplanev1.AvailableCondition),
		HaveField("Condition", BeEmpty()),
	))
	g.Expect(frame.Delete).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", controlplanev1.NodesGoneCondition),
		HaveField("Condition", controlplanev1.LoadBalancersGoneCondition),
		HaveField("Condition", controlplanev1.AddonsGoneCondition),
		HaveField("Condition", controlplanev1.MachinesGoneCondition),
		HaveField("Condition", infrav1.DestroyedCondition),
		HaveField("Condition", BeEmpty()),
	), "what controllers of the cluster created is deleted while they run")
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
