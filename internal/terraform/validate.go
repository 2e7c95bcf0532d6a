package terraform

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// ReservedFilePrefix is the prefix of the files that the engine writes into a
// module's directory.
const ReservedFilePrefix = "zz_capt_"

// Validate returns all errors that prevent the request from being run. The schema of the API
// checks most fields, and the manager sets others.
func (r *Request) Validate() error {
	errs := []error{r.validateOperation()}
	if r.Tool != nil {
		errs = append(errs, r.Tool.Validate())
	}
	if r.OneShot != nil {
		errs = append(errs, r.OneShot.Validate())
	}
	if r.Operation != OperationSaveState {
		errs = append(errs, r.Module.validate())
	}
	return errors.Join(append(errs, r.validateInputs())...)
}

// validateInputs validates everything but the operation and the module.
func (r *Request) validateInputs() error {
	var errs []error
	for name := range r.Files {
		errs = append(errs, validateFile(name))
	}
	for name, value := range r.Env {
		errs = append(errs, validateEnv(name, value))
	}
	for _, args := range []struct {
		field string
		args  []string
	}{
		{"initArgs", r.InitArgs},
		{"planArgs", r.PlanArgs},
		{"applyArgs", r.ApplyArgs},
		{"destroyArgs", r.DestroyArgs},
	} {
		if err := CheckArgs(args.args); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", args.field, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Request) validateOperation() error {
	switch r.Operation {
	case OperationPlan, OperationPlanAndApply, OperationDestroy, OperationPlanDestroy, OperationCheckDrift, OperationSaveState, OperationShell:
		return nil
	case OperationApply, OperationApplyDestroy:
		if r.Plan == nil || r.Plan.ID == "" {
			return fmt.Errorf("operation %s requires the plan to apply", r.Operation)
		}
		return nil
	case OperationRestoreState:
		if r.Snapshot == "" {
			return errors.New("operation RestoreState requires the snapshot to restore")
		}
		return nil
	case OperationStateCommand:
		if r.StateCommand == nil {
			return errors.New("operation StateCommand requires the command")
		}
		return r.StateCommand.Validate()
	case OperationMoveState:
		if r.From == nil {
			return errors.New("operation MoveState requires the backend that has the state")
		}
		if err := r.From.validateInputs(); err != nil {
			return fmt.Errorf("backend that has the state: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("operation %q is unknown", r.Operation)
	}
}

func (m Module) validate() error {
	switch m.Source {
	case SourceInline:
		for _, name := range slices.Sorted(maps.Keys(m.Files)) {
			if err := ValidateModuleFile(name); err != nil {
				return err
			}
		}
		return nil
	case SourceRemote:
		if m.Address == "" {
			return errors.New("module address is empty")
		}
		if strings.HasPrefix(m.Address, "./") || strings.HasPrefix(m.Address, "../") {
			return fmt.Errorf("module address %q is relative: use an absolute path or a remote address", m.Address)
		}
		return m.validateEntrypoint()
	case SourceFlux:
		if m.Artifact == nil {
			return errors.New("module of source Flux has no artifact")
		}
		return m.validateEntrypoint()
	default:
		return fmt.Errorf("module source %q is unknown: use Inline, Remote or Flux", m.Source)
	}
}

func (m Module) validateEntrypoint() error {
	if m.Entrypoint != "" && !localPath(m.Entrypoint) {
		return fmt.Errorf("entrypoint %q is outside the module: write a relative path without '..'", m.Entrypoint)
	}
	return nil
}

// ValidateModuleFile returns an error if an inline module cannot have a file with the
// path.
func ValidateModuleFile(name string) error {
	if err := validateFile(name); err != nil {
		return err
	}
	switch {
	case name != path.Clean(name):
		return fmt.Errorf("file %q is not a plain path: write %q", name, path.Clean(name))
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.HasPrefix(part, ".") }):
		return fmt.Errorf("file %q has a part that begins with a dot: rename it", name)
	case name == "main.tf" || name == "main.tf.json":
		return fmt.Errorf("file %q is the module itself: write it in module", name)
	case !strings.Contains(name, "/") && IsAutoVars(name):
		return fmt.Errorf("file %q would override the variables of workspaces: use vars or varFiles", name)
	}
	return nil
}

func validateFile(name string) error {
	if !localPath(name) {
		return fmt.Errorf("file %q is outside the module's directory: write a relative path without '..'", name)
	}
	first, _, _ := strings.Cut(path.Clean(name), "/")
	if first == ".terraform" || strings.HasPrefix(path.Base(name), ReservedFilePrefix) {
		return fmt.Errorf("file %q has a name that is reserved for the engine: rename it", name)
	}
	return nil
}

func localPath(name string) bool {
	clean := path.Clean(name)
	return name != "" && !path.IsAbs(clean) && clean != "." && clean != ".." &&
		!strings.HasPrefix(clean, "../") && !strings.ContainsAny(name, "\x00\\")
}

// reservedEnv would change where OpenTofu and Terraform keep files or what they
// print.
var reservedEnv = []string{
	"TF_WORKSPACE", "TF_DATA_DIR", "TF_IN_AUTOMATION", "TF_INPUT", "TF_PLUGIN_CACHE_DIR",
	"TF_REATTACH_PROVIDERS", "TF_TEMP_LOG_PATH", "TF_STATE_PERSIST_INTERVAL",
}

func validateEnv(name, value string) error {
	switch {
	case !envName.MatchString(name):
		return fmt.Errorf("environment variable %q has an invalid name: use letters, digits, '_', '-' and '.'", name)
	case slices.Contains(reservedEnv, name) || strings.HasPrefix(name, "TF_CLI_ARGS") || strings.HasPrefix(name, "TF_LOG"):
		return fmt.Errorf("environment variable %s is set by the engine: remove it", name)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("environment variable %s contains a NUL byte", name)
	}
	return nil
}

// IsConfig reports whether OpenTofu or Terraform loads a file of a module's directory
// as configuration.
func IsConfig(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.ContainsFunc([]string{".tf", ".tofu", ".tf.json", ".tofu.json"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// ConfigStem returns the name of a configuration file without its extension.
func ConfigStem(name string) string {
	name = strings.TrimSuffix(name, ".json")
	return strings.TrimSuffix(strings.TrimSuffix(name, ".tf"), ".tofu")
}

// IsOverride reports whether a configuration file changes what the others declare.
func IsOverride(name string) bool {
	stem := ConfigStem(name)
	return stem == "override" || strings.HasSuffix(stem, "_override")
}

// IsAutoVars reports whether OpenTofu and Terraform load a file of the root
// module automatically as variables.
func IsAutoVars(name string) bool {
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" ||
		strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")
}
