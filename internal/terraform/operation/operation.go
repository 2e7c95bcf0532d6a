// Package operation converts WorkspaceOperations into what runs execute.
package operation

import (
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Validate returns what is wrong with an operation beyond its schema.
func Validate(o *infrav1.WorkspaceOperation) error {
	switch {
	case o.Spec.Type == infrav1.OperationState && o.Spec.State != nil:
		return StateCommand(o).Validate() //nolint:wrapcheck // The error says what to write.
	case o.Spec.HasOptions():
		return OneShot(o).Validate() //nolint:wrapcheck // The error says what to write.
	default:
		return nil
	}
}

// OneShot returns a run with options, or nil if the operation is another one.
func OneShot(o *infrav1.WorkspaceOperation) *terraform.OneShot {
	if !o.Spec.HasOptions() {
		return nil
	}
	options := ptr.Deref(o.Spec.Run, infrav1.RunOptions{})
	once := &terraform.OneShot{
		ID:      string(o.UID),
		Replace: addresses(options.Replace), Target: addresses(options.Target),
		RefreshOnly: options.RefreshOnly, PlanOnly: options.PlanOnly, Hold: o.Spec.Hold,
	}
	for _, i := range options.Import {
		once.Import = append(once.Import, terraform.Import{Address: i.Address, ID: i.ID})
	}
	return once
}

// StateCommand returns the command of an operation of type State.
func StateCommand(o *infrav1.WorkspaceOperation) *terraform.StateCommand {
	options := o.Spec.State
	return &terraform.StateCommand{
		ID: string(o.UID), Command: options.Command, Args: addresses(options.Args),
		Input: options.Input, Force: options.Force, JSON: options.JSON, Sensitive: options.Sensitive, PublicKey: options.PublicKey,
	}
}

// Move returns the move of an operation of type Move.
func Move(o *infrav1.WorkspaceOperation) *terraform.Move {
	return &terraform.Move{ID: string(o.UID), From: o.Spec.Move.From, To: o.Spec.Move.To}
}

func addresses(list []infrav1.AddressString) []string {
	var texts []string
	for _, address := range list {
		texts = append(texts, string(address))
	}
	return texts
}
