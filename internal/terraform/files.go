package terraform

import "strings"

// IsAutoVars reports whether the tool reads a file of the root module as
// variables by itself. Such files win over the environment.
func IsAutoVars(name string) bool {
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" ||
		strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")
}
