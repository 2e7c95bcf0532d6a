package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestToolRequirement_meets(t *testing.T) {
	for _, tt := range []struct {
		product, constraint, found, version string
		want                                bool
	}{
		{"", "", "OpenTofu", "1.12.6", true},
		{"Terraform", "", "OpenTofu", "1.12.6", false},
		{"Terraform", "", "Terraform", "1.11.4", true},
		{"", "~> 1.10", "OpenTofu", "1.12.6", true},
		{"", "~> 1.10", "OpenTofu", "2.0.0", false},
		{"", "~> 1.10.1", "OpenTofu", "1.10.7", true},
		{"", "~> 1.10.1", "OpenTofu", "1.11.0", false},
		{"", "~> 1", "OpenTofu", "1.0.0", true},
		{"", ">= 1.9, < 1.11", "OpenTofu", "1.10.9", true},
		{"", ">= 1.9, < 1.11", "OpenTofu", "1.11.0", false},
		{"", "1.10.9", "OpenTofu", "1.10.9", true},
		{"", "= 1.10.9", "OpenTofu", "1.10.8", false},
		{"", "!= 1.10.9", "OpenTofu", "1.10.9", false},
		{"", ">= 1.9", "OpenTofu", "1.11.0-rc1", false},
		{"", "1.11.0-rc1", "OpenTofu", "1.11.0-rc1", true},
		{"", "< 1.11.0-rc2", "OpenTofu", "1.11.0-rc1", true},
		{"", "~> 1.11-rc1", "OpenTofu", "1.11.0-rc2", true},
		{"", ">= 1.09, < v01", "OpenTofu", "1.9.0", false},
		{"", "1.09", "OpenTofu", "1.9.0", true},
		{"", "1.11.0-rc.01", "OpenTofu", "1.11.0-rc.1", true},
		{"", "<= 1.5", "Terraform", "1.5.0", true},
		{"", "> 1.5", "Terraform", "1.5.0", false},
		{"", "", "Terraform", "unknown", false},
	} {
		requirement := ToolRequirement{Product: tt.product, Version: tt.constraint}
		NewWithT(t).Expect(requirement.Validate()).To(Succeed())
		NewWithT(t).Expect(requirement.Meets(tt.found, tt.version)).To(Equal(tt.want), "%s: %s %s", requirement, tt.found, tt.version)
	}
	for _, wrong := range []ToolRequirement{{Product: "tofu"}, {Version: "latest"}, {Version: "~1.10"}, {Version: ">= 1.9,"}, {Version: "1.2.3.4"}} {
		NewWithT(t).Expect(wrong.Validate()).NotTo(Succeed(), wrong.String())
	}
}
