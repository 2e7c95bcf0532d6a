package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/appthrust/capt/internal/host/sandbox"
)

// Sandbox is whether the tool runs in a sandbox.
type Sandbox string

// The values of Sandbox.
const (
	// SandboxAuto uses a sandbox if this system has one.
	SandboxAuto Sandbox = "auto"
	// SandboxRequired fails a run that has no sandbox.
	SandboxRequired Sandbox = "required"
	// SandboxOff uses none.
	SandboxOff Sandbox = "off"
)

// Set implements flag.Value.
func (s *Sandbox) Set(text string) error {
	switch value := Sandbox(text); value {
	case SandboxAuto, SandboxRequired, SandboxOff:
		*s = value
		return nil
	default:
		return errors.New("use auto, required or off")
	}
}

// String implements flag.Value.
func (s *Sandbox) String() string { return string(*s) }

// Type implements pflag.Value.
func (s *Sandbox) Type() string { return "string" }

// enterSandbox hides files from the tool. The log of the run says what is not hidden.
func (r *Runner) enterSandbox(run *execution) error {
	if r.Sandbox == SandboxOff || len(r.Hidden) == 0 {
		return nil
	}
	err := (sandbox.Rules{Hidden: r.Hidden}).Check()
	if err == nil {
		r.workdir.Hidden = r.Hidden
		if exposed := (sandbox.Rules{Hidden: r.Hidden}).Exposed(); len(exposed) > 0 {
			err = fmt.Errorf("these files are in a directory that all users share: %s", strings.Join(exposed, ", "))
		}
	}
	if err != nil && r.Sandbox == SandboxRequired {
		return terminal("No sandbox", err)
	}
	if err != nil {
		run.printf("The sandbox is incomplete: %v", err)
	}
	return nil
}
