package binary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// toolDir returns a directory with links to the installed tools, under names of a catalogue.
func toolDir(t *testing.T) (dir string, hasTerraform bool) {
	t.Helper()
	g := NewWithT(t)
	dir = t.TempDir()
	g.Expect(os.Symlink(commandtest.Tofu(t), filepath.Join(dir, "tofu-1"))).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tofu-notes.txt"), nil, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tofu-9.9.9"), []byte("#!/bin/sh\nexit 1\n"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "terraform-provider-x"), []byte("#!/bin/sh\nexit 1\n"), 0o700)).To(Succeed())
	path := commandtest.Terraform()
	if path != "" {
		g.Expect(os.Symlink(path, filepath.Join(dir, "terraform-1"))).To(Succeed())
	}
	return dir, path != ""
}

func TestSelect_usesTheToolThatMeetsTheRequirement(t *testing.T) {
	g := NewWithT(t)
	dir, hasTerraform := toolDir(t)
	t.Setenv("PATH", dir)
	t.Setenv(Env, "")
	version, err := (&Tool{Path: commandtest.Tofu(t)}).Version(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	for _, constraint := range []string{"", version.Version, "~> 1.6", ">= 1.6, < 2"} {
		tool, err := Select(t.Context(), "", &terraform.ToolRequirement{Product: "OpenTofu", Version: constraint})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Base(tool.Path)).To(Equal("tofu-1"))
	}
	if hasTerraform {
		// Although another one is configured.
		tool, err := Select(t.Context(), filepath.Join(dir, "tofu-1"), &terraform.ToolRequirement{Product: "Terraform"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Base(tool.Path)).To(Equal("terraform-1"))
	}
	_, err = Select(t.Context(), "", &terraform.ToolRequirement{Product: "OpenTofu", Version: "~> 0.12.0"})
	var missing *NotAvailableError
	g.Expect(err).To(BeAssignableToTypeOf(missing))
	g.Expect(err).To(MatchError(And(ContainSubstring("requires OpenTofu ~> 0.12.0"), ContainSubstring("OpenTofu "+version.Version+" ("+filepath.Join(dir, "tofu-1")))))
	g.Expect(strings.Count(err.Error(), "tofu-9.9.9")).To(BeZero(), "a program that does not run is not available")

	tool, err := Select(t.Context(), filepath.Join(dir, "tofu-1"), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Base(tool.Path)).To(Equal("tofu-1"))
}

func TestSelect_prefersTheConfiguredTool(t *testing.T) {
	versions := map[string]string{
		"tofu": "OpenTofu v1.10.1", "tofu-1.9.4": "OpenTofu v1.9.4", "tofu-1.10.6": "OpenTofu v1.10.6",
		"terraform-1.9.8": "Terraform v1.9.8", "terraform-1.13.2": "Terraform v1.13.2",
	}
	tests := []struct {
		name, binary  string
		product       string
		version, want string
	}{
		{name: "the configured one, although a newer one fits", binary: "tofu-1.9.4", version: ">= 1.9", want: "tofu-1.9.4"},
		{name: "the default, although a newer one fits", version: ">= 1.9", want: "tofu"},
		{name: "the newest, if the default does not fit", product: "OpenTofu", version: "~> 1.10, != 1.10.1", want: "tofu-1.10.6"},
		{name: "the product of the default, whatever the versions of the other one", version: "~> 1.9.0", want: "tofu-1.9.4"},
		{name: "the product of the configured one", binary: "terraform-1.13.2", version: "~> 1.9.0", want: "terraform-1.9.8"},
		{name: "the other product, if only that fits", version: ">= 1.11", want: "terraform-1.13.2"},
		{name: "the product that is required", product: "Terraform", version: "~> 1.9.0", want: "terraform-1.9.8"},
		{name: "any version of a product", product: "Terraform", want: "terraform-1.13.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			dir := commandtest.FakeTools(t, versions)
			t.Setenv("PATH", dir)
			t.Setenv(Env, "")
			tool, err := Select(t.Context(), tt.binary, &terraform.ToolRequirement{Product: tt.product, Version: tt.version})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(filepath.Base(tool.Path)).To(Equal(tt.want))
		})
	}
}

func TestReportedInterrupt(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(reportedInterrupt(dir)).To(BeFalse())
	stream := filepath.Join(dir, "run", "apply.jsonl")
	g.Expect(os.MkdirAll(filepath.Dir(stream), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(stream, []byte("{\"@message\":\"a\"}\n"), 0o600)).To(Succeed())
	g.Expect(reportedInterrupt(dir)).To(BeFalse())
	g.Expect(os.WriteFile(stream, []byte("{\"@message\":\"\\nInterrupt received.\\nPlease wait\"}\n"), 0o600)).To(Succeed())
	g.Expect(reportedInterrupt(dir)).To(BeTrue())
}
