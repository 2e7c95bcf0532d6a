package terraform

import (
	"slices"
	"strings"
)

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
