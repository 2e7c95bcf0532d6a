package desired

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestMinorOf(t *testing.T) {
	for text, want := range map[string]string{
		"v1.33.2": "1.33", "1.33": "1.33", "v1.33.2-eks-1234567": "1.33", "": "", "latest": "",
	} {
		NewWithT(t).Expect(minorOf(text)).To(Equal(want), "%q", text)
	}
}

func TestTaints_laterListsTakePrecedence(t *testing.T) {
	got := taints(
		[]infrav1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}},
		[]infrav1.Taint{{Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "a", Value: "3", Effect: "NoExecute"}},
	)
	NewWithT(t).Expect(got).To(Equal([]taint{
		{Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "b", Value: "", Effect: "NoExecute"}, {Key: "a", Value: "3", Effect: "NoExecute"},
	}))
	NewWithT(t).Expect(taints(nil)).To(BeEmpty())
}
