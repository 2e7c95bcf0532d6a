package terraform

import (
	"fmt"
	"slices"
	"strings"
)

// refusedArgs would make a command work on another state or plan, or print
// what the engine cannot read.
var refusedArgs = []string{
	"chdir", "out", "json", "json-into", "state", "state-out", "backup", "destroy", "refresh-only",
	"detailed-exitcode", "show-sensitive", "from-module", "migrate-state", "force-copy", "backend",
	"generate-config-out", "help", "version",
}

// impliedArgs are what the engine passes by itself: giving them is harmless.
var impliedArgs = []string{"auto-approve", "input", "no-color", "lock", "reconfigure", "compact-warnings", "concise"}

// planningArgs decide what is planned. A saved plan already holds them, so
// given for an apply they belong to the plan before it.
var planningArgs = []string{"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "refresh"}

// valueArgs take their value as the next argument when it is not behind "=".
var valueArgs = []string{
	"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "parallelism",
	"lock-timeout", "backend-config", "plugin-dir", "lockfile", "test-directory",
}

// CheckArgs refuses arguments that the engine cannot honour.
func CheckArgs(args []string) error {
	for i := 0; i < len(args); i++ {
		name, hasValue := argName(args[i])
		switch {
		case name == "":
			return fmt.Errorf("%q is not an option: write it as -name=value", args[i])
		case slices.Contains(refusedArgs, name):
			return fmt.Errorf("-%s is set by the engine itself", name)
		case !hasValue && slices.Contains(valueArgs, name):
			i++
		}
	}
	return nil
}

// SplitArgs parts the arguments written for an apply or a destroy into those
// for making the plan and those for applying it. Arguments that the engine
// passes anyway are dropped.
func SplitArgs(args []string) (planning, applying []string) {
	for i := 0; i < len(args); i++ {
		name, hasValue := argName(args[i])
		group := args[i : i+1]
		if !hasValue && slices.Contains(valueArgs, name) && i+1 < len(args) {
			group = args[i : i+2]
			i++
		}
		switch {
		case slices.Contains(impliedArgs, name):
		case slices.Contains(planningArgs, name):
			planning = append(planning, group...)
		case name == "parallelism":
			planning = append(planning, group...)
			applying = append(applying, group...)
		default:
			applying = append(applying, group...)
		}
	}
	return planning, applying
}

// DropImplied removes the arguments that the engine passes by itself.
func DropImplied(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _ := argName(arg)
		return slices.Contains(impliedArgs, name)
	})
}

func argName(arg string) (name string, hasValue bool) {
	if !strings.HasPrefix(arg, "-") {
		return "", false
	}
	name, _, hasValue = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name, hasValue
}
