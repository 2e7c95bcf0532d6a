package runs

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestChangesNothing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ChangesNothing(terraform.OperationCheckDrift, "hash")).To(BeTrue())
	g.Expect(ChangesNothing(terraform.OperationStateCommand, "state list 1")).To(BeTrue())
	g.Expect(ChangesNothing(terraform.OperationStateCommand, "state push 1")).To(BeFalse())
	g.Expect(ChangesNothing(terraform.OperationStateCommand, "")).To(BeFalse())
	g.Expect(ChangesNothing(terraform.OperationMoveState, "move 1")).To(BeFalse())
}
