package command

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestIsPinned(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	remote := func(address, version string) terraform.Module {
		return terraform.Module{Source: terraform.SourceRemote, Address: address, Version: version}
	}
	for name, tc := range map[string]struct {
		module terraform.Module
		want   bool
	}{
		"inline":                         {terraform.Module{Source: terraform.SourceInline}, true},
		"git commit":                     {remote("git::https://example.com/x.git?ref="+commit, ""), true},
		"git commit after another query": {remote("git::https://example.com/x.git?depth=1&ref="+commit, ""), true},
		"git tag":                        {remote("git::https://example.com/x.git?ref=v1.2.3", ""), false},
		"short git commit":               {remote("git::https://example.com/x.git?ref="+commit[:39], ""), false},
		"git branch by default":          {remote("git::https://example.com/x.git", ""), false},
		"archive with a checksum":        {remote("https://example.com/x.zip?checksum=sha256:00", ""), true},
		"archive":                        {remote("https://example.com/x.zip", ""), false},
		"exact version":                  {remote("terraform-aws-modules/vpc/aws", "6.1.0"), true},
		"exact version with an operator": {remote("terraform-aws-modules/vpc/aws", "= 6.1.0"), true},
		"version range":                  {remote("terraform-aws-modules/vpc/aws", "~> 6.1.0"), false},
		"minor version":                  {remote("terraform-aws-modules/vpc/aws", "6.1"), false},
		"several constraints":            {remote("terraform-aws-modules/vpc/aws", "6.1.0, 6.2.0"), false},
		"OCI digest":                     {remote("oci://example.com/x?digest=sha256:"+commit+commit[:24], ""), true},
		"OCI tag":                        {remote("oci://example.com/x?tag=1.0.0", ""), false},
		"local directory":                {remote("/modules/vpc", ""), false},
	} {
		NewWithT(t).Expect(isPinned(tc.module)).To(Equal(tc.want), name)
	}
}

func TestFetchedModule(t *testing.T) {
	for name, tc := range map[string]struct{ manifest, want, err string }{
		"the package's root":    {`{"Modules":[{"Key":"","Dir":"."},{"Key":"capt","Dir":".terraform/modules/capt"}]}`, ".", ""},
		"a directory below it":  {`{"Modules":[{"Key":"capt","Dir":".terraform/modules/capt/modules/m"}]}`, "modules/m", ""},
		"a submodule is listed": {`{"Modules":[{"Key":"capt.n","Dir":".terraform/modules/capt/n"},{"Key":"capt","Dir":".terraform/modules/capt/m"}]}`, "m", ""},
		"not listed":            {`{"Modules":[]}`, "", "reading the list of fetched modules: module not found"},
		"invalid":               {`{`, "", "reading the list of fetched modules: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			g.Expect(writeFile(filepath.Join(dir, dataDir, "modules", "modules.json"), []byte(tc.manifest))).To(Succeed())
			root, _, err := fetchedModule(dir)
			g.Expect(root).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
	_, _, err := fetchedModule(t.TempDir())
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}

func TestFetchConfig_quotesTheAddress(t *testing.T) {
	g := NewWithT(t)
	config := string(fetchConfig(terraform.Module{Address: `x" ${evil}`, Version: "1.0.0"}))
	g.Expect(config).To(Equal("module \"capt\" {\n  source  = \"x\\\" $${evil}\"\n  version = \"1.0.0\"\n}\n"))
	g.Expect(string(fetchConfig(terraform.Module{Address: "x"}))).NotTo(ContainSubstring("version"))
}
