package terraform

import "strings"

// IsAutoVars reports whether OpenTofu and Terraform load a file of the root
// module automatically as variables. Such a file overrides the environment.
func IsAutoVars(name string) bool {
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" ||
		strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")
}
