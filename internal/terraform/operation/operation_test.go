package operation_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/operation"
)

func run(options infrav1.RunOptions) infrav1.WorkspaceOperationSpec {
	return infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, Run: &options}
}

func held(spec infrav1.WorkspaceOperationSpec) infrav1.WorkspaceOperationSpec {
	spec.Hold = true
	return spec
}

func state(options infrav1.StateOptions) infrav1.WorkspaceOperationSpec {
	return infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState, State: &options}
}

func TestValidate(t *testing.T) {
	addresses := func(list ...infrav1.AddressString) []infrav1.AddressString { return list }
	imported := infrav1.ImportedResource{Address: "a.b", ID: "x"}
	for name, tt := range map[string]struct {
		spec infrav1.WorkspaceOperationSpec
		want string
	}{
		"a plain run":          {infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}, ""},
		"empty options":        {run(infrav1.RunOptions{}), ""},
		"a replacement":        {held(run(infrav1.RunOptions{Replace: addresses("a.b")})), ""},
		"a plan":               {run(infrav1.RunOptions{PlanOnly: true}), ""},
		"an import":            {run(infrav1.RunOptions{Import: []infrav1.ImportedResource{imported}}), ""},
		"two options":          {run(infrav1.RunOptions{RefreshOnly: true, Target: addresses("a.b")}), "exclude each other"},
		"only hold":            {held(infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}), "nothing is requested"},
		"a plan that is held":  {held(run(infrav1.RunOptions{PlanOnly: true})), "planOnly and hold exclude each other"},
		"a module to replace":  {run(infrav1.RunOptions{Replace: addresses("module.a")}), `address "module.a" is invalid`},
		"a flag as a target":   {run(infrav1.RunOptions{Target: addresses("-destroy")}), `address "-destroy" is invalid`},
		"an import of a flag":  {run(infrav1.RunOptions{Import: []infrav1.ImportedResource{{Address: "-a", ID: "x"}}}), `address "-a" is invalid`},
		"an import of no ID":   {run(infrav1.RunOptions{Import: []infrav1.ImportedResource{{Address: "a.b", ID: "x\ny"}}}), "the ID of a.b is invalid"},
		"the same import":      {run(infrav1.RunOptions{Import: []infrav1.ImportedResource{imported, imported}}), "imported twice"},
		"many addresses":       {run(infrav1.RunOptions{Replace: slices.Repeat(addresses("a.b"), 101)}), "more than 100 addresses"},
		"a list":               {state(infrav1.StateOptions{Command: "list"}), ""},
		"a push":               {state(infrav1.StateOptions{Command: "push", Input: "input-1", Force: true}), ""},
		"another command":      {state(infrav1.StateOptions{Command: "taint"}), `command "taint" is unknown`},
		"too few addresses":    {state(infrav1.StateOptions{Command: "rm"}), "takes 1 to 100"},
		"too many addresses":   {state(infrav1.StateOptions{Command: "pull", Args: addresses("a.b")}), "takes none"},
		"a flag of a command":  {state(infrav1.StateOptions{Command: "rm", Args: addresses("-lock=false")}), `address "-lock=false" is invalid`},
		"JSON of a list":       {state(infrav1.StateOptions{Command: "list", JSON: true}), "takes neither json nor sensitive"},
		"secrets of a list":    {state(infrav1.StateOptions{Command: "list", Sensitive: true}), "takes neither json nor sensitive"},
		"a key of a change":    {state(infrav1.StateOptions{Command: "rm", Args: addresses("a.b"), PublicKey: "AA=="}), "takes no publicKey"},
		"input of a removal":   {state(infrav1.StateOptions{Command: "rm", Args: addresses("a.b"), Input: "input-1"}), "takes neither input nor force"},
		"force of a removal":   {state(infrav1.StateOptions{Command: "rm", Args: addresses("a.b"), Force: true}), "takes neither input nor force"},
		"a push of a snapshot": {state(infrav1.StateOptions{Command: "push", Input: "snapshot-a-r1"}), `input "snapshot-a-r1" is invalid`},
		"a cancel":             {infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "a-r1"}}, ""},
		"a state without one":  {infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := &infrav1.WorkspaceOperation{Spec: tt.spec}
			err := operation.Validate(o)
			g.Expect(o.UID).To(BeEmpty(), "the operation does not change")
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
		})
	}
}

func TestConversions(t *testing.T) {
	g := NewWithT(t)
	of := func(spec infrav1.WorkspaceOperationSpec) *infrav1.WorkspaceOperation {
		o := &infrav1.WorkspaceOperation{Spec: spec}
		o.UID = "u"
		return o
	}
	g.Expect(operation.OneShot(of(run(infrav1.RunOptions{})))).To(BeNil())
	g.Expect(operation.OneShot(of(held(run(infrav1.RunOptions{
		PlanOnly: true, RefreshOnly: true, Replace: []infrav1.AddressString{"a"}, Target: []infrav1.AddressString{"b"}, Import: []infrav1.ImportedResource{{Address: "c", ID: "d"}},
	}))))).To(Equal(&terraform.OneShot{
		ID: "u", PlanOnly: true, RefreshOnly: true, Hold: true, Replace: []string{"a"}, Target: []string{"b"}, Import: []terraform.Import{{Address: "c", ID: "d"}},
	}))
	g.Expect(operation.StateCommand(of(state(infrav1.StateOptions{
		Command: "rm", Args: []infrav1.AddressString{"a"}, Input: "b", Force: true, JSON: true, Sensitive: true, PublicKey: "c",
	})))).To(Equal(&terraform.StateCommand{ID: "u", Command: "rm", Args: []string{"a"}, Input: "b", Force: true, JSON: true, Sensitive: true, PublicKey: "c"}))
	g.Expect(operation.Move(of(infrav1.WorkspaceOperationSpec{Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "a", To: "b"}}))).To(Equal(&terraform.Move{ID: "u", From: "a", To: "b"}))
}
