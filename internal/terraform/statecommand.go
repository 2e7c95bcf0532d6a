package terraform

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The commands of OperationStateCommand.
const (
	StatePull = "pull"
	StatePush = "push"
	StateList = "list"
	StateShow = "show"
	StateMv   = "mv"
	StateRm   = "rm"
)

// StateCommand is a command of a user that reads or changes the state.
type StateCommand struct {
	// ID is the UID of the WorkspaceOperation. Each is executed once.
	ID string `json:"id"`
	// Command is one of the commands above.
	Command string `json:"command"`
	// Args are resource addresses.
	Args []string `json:"args,omitempty"`
	// Input is the name of the stored state that StatePush pushes.
	Input string `json:"input,omitempty"`
	// Force makes StatePush accept another lineage and an older serial.
	Force bool `json:"force,omitempty"`
	// JSON makes StateShow return JSON instead of text.
	JSON bool `json:"json,omitempty"`
	// Sensitive makes StateShow include sensitive values.
	Sensitive bool `json:"sensitive,omitempty"`
	// PublicKey encrypts the output of a command that only reads.
	PublicKey string `json:"publicKey,omitempty"`
}

// InputPrefix is the prefix of the names of stored inputs. It prevents that a
// command reads any other stored content.
const InputPrefix = "input-"

const (
	maxAddresses   = 100
	maxAddressSize = 1024
)

var inputName = regexp.MustCompile(`^` + InputPrefix + `[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$`)

// Writes reports whether the command changes the state.
func (c *StateCommand) Writes() bool {
	return c.Command == StatePush || c.Command == StateMv || c.Command == StateRm
}

// Validate returns what is wrong with the command.
func (c *StateCommand) Validate() error {
	if err := c.validateArgs(); err != nil {
		return err
	}
	if (c.JSON || c.Sensitive) && c.Command != StateShow {
		return fmt.Errorf("command %s takes neither json nor sensitive", c.Command)
	}
	if c.PublicKey != "" && c.Writes() {
		return fmt.Errorf("command %s takes no publicKey", c.Command)
	}
	if c.Command != StatePush {
		if c.Input != "" || c.Force {
			return fmt.Errorf("command %s takes neither input nor force", c.Command)
		}
		return nil
	}
	if !inputName.MatchString(c.Input) {
		return fmt.Errorf("input %q is invalid: command push requires the name of a stored state, which starts with %s", c.Input, InputPrefix)
	}
	return nil
}

func (c *StateCommand) validateArgs() error {
	least, most := 0, 0
	switch c.Command {
	case StatePull, StatePush:
	case StateList:
		most = maxAddresses
	case StateShow:
		least, most = 1, 1
	case StateMv:
		least, most = 2, 2
	case StateRm:
		least, most = 1, maxAddresses
	default:
		return fmt.Errorf("command %q is unknown: use %s", c.Command, strings.Join([]string{StatePull, StatePush, StateList, StateShow, StateMv, StateRm}, ", "))
	}
	if len(c.Args) < least || len(c.Args) > most {
		return fmt.Errorf("command %s has %d addresses, but takes %s", c.Command, len(c.Args), takes(least, most))
	}
	if i := slices.IndexFunc(c.Args, func(address string) bool { return !isAddress(address) }); i >= 0 {
		return fmt.Errorf("address %q is invalid: write the address of a resource or module, for example aws_vpc.main or module.network", c.Args[i])
	}
	return nil
}

func takes(least, most int) string {
	switch {
	case most == 0:
		return "none"
	case least == most:
		return fmt.Sprint(least)
	default:
		return fmt.Sprintf("%d to %d", least, most)
	}
}

// isAddress reports whether a text may be the address of a resource or a module. It
// is never a flag. The tool checks the rest.
func isAddress(text string) bool {
	if text == "" || len(text) > maxAddressSize || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	first := text[0]
	return first == '_' || first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z'
}

// CheckPush returns why a state must not be pushed without force, or an empty
// string: it would replace a state of another lineage, or a later version. The known
// state counts even if the backend has lost it. Then a state without resources, which
// an interrupted push left, does not count.
func CheckPush(pushed, found StateInfo, known KnownState) string {
	if pushed.Lineage == "" {
		return "the pushed state has no lineage, so that it cannot be compared with the state of the workspace"
	}
	if known.Lineage != "" && found.Lineage != known.Lineage && known.isFree(found) {
		found = StateInfo{}
	}
	for _, current := range []struct {
		StateInfo
		what string
	}{{found, "the state in the backend"}, {known.StateInfo, "the last known state"}, {StateInfo{Lineage: known.Expected}, "the state that the workspace had"}} {
		switch {
		case current.Lineage == "":
		case current.Lineage != pushed.Lineage:
			return fmt.Sprintf("the pushed state has lineage %s, but %s has lineage %s", pushed.Lineage, current.what, current.Lineage)
		case pushed.Serial < current.Serial:
			return fmt.Sprintf("the pushed state has serial %d, but %s has serial %d", pushed.Serial, current.what, current.Serial)
		}
	}
	return ""
}

// Move requests that the state moves to the backend of another provider config.
type Move struct {
	// ID identifies the request.
	ID string `json:"id"`
	// From and To are the names of the provider configs, empty for none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// CheckTarget returns why the state must not move to a backend that has another
// state, or an empty string. A target of the same lineage is a copy that an earlier
// move left. A push increments the serial by one.
func CheckTarget(source, target StateInfo, owner string) string {
	switch {
	case target.Lineage == "" || target.Lineage != source.Lineage && target.IsFree(owner):
		return ""
	case target.Lineage != source.Lineage && target.Resources == 0:
		return fmt.Sprintf("it has an empty state of another lineage, which belongs to %s. Use ${WORKSPACE_NAMESPACE} and ${WORKSPACE_NAME} in the backend configuration, or delete that state", target.Owner)
	case target.Lineage != source.Lineage:
		return fmt.Sprintf("it has a state of another lineage with %d resources. Use ${WORKSPACE_NAMESPACE} and ${WORKSPACE_NAME} in the backend configuration", target.Resources)
	case target.Serial > source.Serial+1:
		return fmt.Sprintf("it has serial %d of this state, which is later than serial %d in the present backend. Delete it there if it is not needed", target.Serial, source.Serial)
	default:
		return ""
	}
}
