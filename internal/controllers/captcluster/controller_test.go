package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestFrame_order(t *testing.T) {
	g := NewWithT(t)
	frame := (&Reconciler{}).frame()
	g.Expect(frame.Steps).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", infrav1.InfrastructureReadyCondition),
		HaveField("Condition", infrav1.FailureDomainsKnownCondition),
	), "the cluster is provisioned when all else is known")
	g.Expect(frame.Steps).To(HaveEach(HaveField("ContinueIf", BeNil())), "no step runs before the previous one is done")
	g.Expect(frame.Delete).To(HaveExactElements(
		HaveField("Condition", infrav1.ControlPlaneGoneCondition),
		HaveField("Condition", infrav1.DestroyedCondition),
	), "the VPC is destroyed after the control plane in it")
}
