package runs

import (
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// DestroyInputs replaces the hash of the inputs in runs that destroy, because all
// inputs destroy the same resources.
const DestroyInputs = "destroy"

// SettleInputs replaces the hash of the inputs in a run that saves a state.
const SettleInputs = "save"

// RestorePrefix precedes the ID of the operation in the inputs of a run that restores a
// snapshot.
const RestorePrefix = "restore "

// RestoreInputs replaces the hash of the inputs in a run that restores a
// snapshot.
func RestoreInputs(id string) string { return RestorePrefix + id }

// oneShotPrefix precedes the inputs and the ID of a one-shot operation in the inputs of its
// runs and of its plan.
const oneShotPrefix = "once "

// OneShotInputs returns what identifies the runs and the plan of a one-shot operation: the
// inputs that they use, the kind of the operation, and its ID.
func OneShotInputs(operation *terraform.OneShot, inputs string) string {
	return oneShotPrefix + kindOf(operation) + " " + inputs + " " + operation.ID
}

// Kinds of one-shot operations that do not apply the inputs as a whole.
const (
	KindPlanOnly    = "plan-only"
	KindTarget      = "target"
	KindRefreshOnly = "refresh-only"
)

func kindOf(operation *terraform.OneShot) string {
	switch {
	case operation.PlanOnly:
		return KindPlanOnly
	case operation.RefreshOnly:
		return KindRefreshOnly
	case len(operation.Target) > 0:
		return KindTarget
	case len(operation.Import) > 0:
		return "import"
	default:
		return "replace"
	}
}

// OneShotRun is what the inputs of a run say about its one-shot operation.
type OneShotRun struct{ Kind, Inputs, ID string }

// ParseOneShotInputs reverses oneShotInputs.
func ParseOneShotInputs(text string) (OneShotRun, bool) {
	rest, found := strings.CutPrefix(text, oneShotPrefix)
	parts := strings.Split(rest, " ")
	if !found || len(parts) != 3 {
		return OneShotRun{}, false
	}
	return OneShotRun{Kind: parts[0], Inputs: parts[1], ID: parts[2]}, true
}

const (
	// commandPrefix precedes the command and its ID in the inputs of a run that
	// executes a state command.
	commandPrefix = "state "
	// MovePrefix precedes the ID of the request in the inputs of a run that moves the
	// state.
	MovePrefix = "move "
)

// CommandInputs returns the inputs of the run of a state command.
func CommandInputs(c *terraform.StateCommand) string { return commandPrefix + c.Command + " " + c.ID }

// MoveInputs returns the inputs of the run that moves a state.
func MoveInputs(id string) string { return MovePrefix + id }

// ParseCommandInputs reverses commandInputs.
func ParseCommandInputs(inputs string) (terraform.StateCommand, bool) {
	text, found := strings.CutPrefix(inputs, commandPrefix)
	command, id, split := strings.Cut(text, " ")
	return terraform.StateCommand{Command: command, ID: id}, found && split
}

// ChangesNothing reports whether a run only reads resources and state.
func ChangesNothing(operation terraform.Operation, inputs string) bool {
	switch operation {
	case terraform.OperationCheckDrift:
		return true
	case terraform.OperationStateCommand:
		command, ok := ParseCommandInputs(inputs)
		return ok && !command.Writes()
	default:
		once, ok := ParseOneShotInputs(inputs)
		return ok && once.Kind == KindPlanOnly
	}
}
