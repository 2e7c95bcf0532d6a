package terraform

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// refusedArgs would make a command use another state or plan, or print output
// that the engine cannot parse.
var refusedArgs = []string{
	"chdir", "out", "json", "json-into", "state", "state-out", "backup", "destroy", "refresh-only",
	"detailed-exitcode", "show-sensitive", "from-module", "migrate-state", "force-copy", "backend",
	"generate-config-out", "help", "version",
}

// impliedArgs are always passed by the engine. Specifying them has no effect.
var impliedArgs = []string{"auto-approve", "input", "no-color", "lock", "reconfigure", "compact-warnings", "concise"}

// planningArgs change the plan. A saved plan already contains them, so those of
// an apply are passed to the plan that precedes it.
var planningArgs = []string{"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "refresh"}

// valueArgs take the next argument as their value unless "=" precedes it.
var valueArgs = []string{
	"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "parallelism",
	"lock-timeout", "backend-config", "plugin-dir", "lockfile", "test-directory",
}

// CheckArgs returns an error for the first argument that the engine does not
// support.
func CheckArgs(args []string) error {
	for i := 0; i < len(args); i++ {
		name, hasValue := argName(args[i])
		switch {
		case name == "":
			return fmt.Errorf("%q is not an option: write it as -name=value", args[i])
		case slices.Contains(refusedArgs, name):
			return fmt.Errorf("-%s is set by the engine: remove it", name)
		case !hasValue && slices.Contains(valueArgs, name):
			i++
		}
	}
	return nil
}

// SplitArgs splits the arguments of an apply or a destroy into those of its plan
// and those of applying the plan. It drops arguments that the engine always
// passes.
func SplitArgs(args []string) (planning, applying []string) {
	for name, group := range argGroups(args) {
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

// PlanningArgs returns the arguments of the request's plan. Arguments of an apply that
// change its plan are passed to the plan.
func (r *Request) PlanningArgs() []string {
	if r.Operation.Destroys() {
		return r.DestroyArgs
	}
	planning, _ := SplitArgs(r.ApplyArgs)
	return slices.Concat(r.PlanArgs, planning)
}

// refreshOnlyArgs are the arguments of a plan that also apply to a plan that only
// refreshes the state.
var refreshOnlyArgs = []string{"var", "var-file", "target", "target-file", "exclude", "exclude-file", "parallelism", "lock-timeout"}

// RefreshOnly returns the arguments of a plan without those that a plan which only
// refreshes the state rejects.
func RefreshOnly(args []string) []string {
	var kept []string
	for name, group := range argGroups(args) {
		if slices.Contains(refreshOnlyArgs, name) {
			kept = append(kept, group...)
		}
	}
	return kept
}

// DropImplied returns args without those that the engine always passes.
func DropImplied(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _ := argName(arg)
		return slices.Contains(impliedArgs, name)
	})
}

// DropUpgrade returns args without the one that upgrades modules and providers.
func DropUpgrade(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _ := argName(arg)
		return name == "upgrade"
	})
}

// SplitInit splits the arguments of an init into those of a command that fetches the
// modules, and those of an init that does not.
func SplitInit(args []string) (get, rest []string) {
	for name, group := range argGroups(args) {
		switch name {
		case "get":
			continue
		case "upgrade":
			if slices.Contains(group, "-upgrade=false") || slices.Contains(group, "--upgrade=false") {
				break
			}
			get = append(get, "-update")
		case "var", "var-file", "test-directory":
			get = append(get, group...)
		}
		rest = append(rest, group...)
	}
	return get, append([]string{"-get=false"}, rest...)
}

// argGroups returns each option with its value, which may be the next argument.
func argGroups(args []string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for i := 0; i < len(args); i++ {
			name, hasValue := argName(args[i])
			group := args[i : i+1]
			if !hasValue && slices.Contains(valueArgs, name) && i+1 < len(args) {
				group = args[i : i+2]
				i++
			}
			if !yield(name, group) {
				return
			}
		}
	}
}

func argName(arg string) (name string, hasValue bool) {
	if !strings.HasPrefix(arg, "-") {
		return "", false
	}
	name, _, hasValue = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name, hasValue
}
