package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

func TestFrame_order(t *testing.T) {
	g := NewWithT(t)
	frame := (&Reconciler{}).frame()
	g.Expect(frame.Steps).To(HaveExactElements(
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", BeEmpty()),
		HaveField("Condition", addonsv1.RenderedCondition),
		HaveField("Condition", addonsv1.ClustersReadyCondition),
	))
	g.Expect(frame.Steps[2].ContinueIf(&scope{})).To(BeTrue(), "one cluster that cannot be rendered does not stop the others")
	g.Expect(frame.Steps[3].RequeueAfter(&scope{requeueAfter: time.Minute})).To(Equal(time.Minute))
	g.Expect(frame.Delete).To(HaveExactElements(
		HaveField("Condition", addonsv1.RemovedCondition),
		HaveField("Condition", BeEmpty()),
	), "the objects on the management cluster are deleted last")
}
