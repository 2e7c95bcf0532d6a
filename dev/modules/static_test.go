package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const tree = "../../modules"

// The checks that need no tofu.
func TestModules_readmesAndSharedFilesAreCurrentAndEveryRuleHasARefusal(t *testing.T) {
	modules, err := findModules(tree)
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{source: tree}
	for _, m := range modules {
		if err := checkReadme(m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		text, err := os.ReadFile(filepath.Join(m.dir, "tests", refusalsFile))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		refusals, err := readRefusals(text)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if err := w.checkRules(m, refusals); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if _, err := checkShared(tree); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindModules_returnsDirectoriesWithTerraformFilesExceptExamplesAndTests(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"network/main.tf": "", "network/examples/basic/main.tf": "", "network/tests/setup/main.tf": "",
		"local/cluster/main.tf": "", "docs/a.md": "", "network/.terraform/modules/x/main.tf": "",
	})
	modules, err := findModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range modules {
		names = append(names, m.name)
	}
	if len(names) != 2 || names[0] != "local/cluster" || names[1] != "network" {
		t.Errorf("found %q", names)
	}
	if chosen, err := choose(modules, []string{"network"}); err != nil || len(chosen) != 1 || chosen[0].name != "network" {
		t.Errorf("chose %v (%v)", chosen, err)
	}
	if _, err := choose(modules, []string{"networks"}); err == nil {
		t.Error("chose a module that does not exist")
	}
	if _, err := findModules(filepath.Join(dir, "docs")); err == nil {
		t.Error("found modules where there are none")
	}
}

func TestCheckProviders_reportsADifference(t *testing.T) {
	dir := t.TempDir()
	requires := func(version string) string {
		return "aws = {\n  source  = \"hashicorp/aws\"\n  version = \"" + version + "\"\n}\n"
	}
	write(t, dir, map[string]string{"a/versions.tf": requires(">= 6.9"), "b/versions.tf": requires(">= 6.9"), "local/main.tf": ""})
	if err := checkProviders(dir); err != nil {
		t.Error(err)
	}
	write(t, dir, map[string]string{"b/examples/one/main.tf": requires(">= 6.0")})
	if err := checkProviders(dir); err == nil {
		t.Error("two versions were accepted")
	}
}

func TestCheckShared_reportsADifference(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{}
	for _, shared := range sharedFiles {
		files[shared.from+"/"+shared.file], files[shared.to+"/"+shared.file] = "same", "same"
	}
	write(t, dir, files)
	if _, err := checkShared(dir); err != nil {
		t.Errorf("equal files differ: %v", err)
	}
	write(t, dir, map[string]string{sharedFiles[0].to + "/" + sharedFiles[0].file: "other"})
	if _, err := checkShared(dir); err == nil {
		t.Error("different files are equal")
	}
}

// An input that a root module does not pass on would be accepted without effect.
func TestEKS_passesEveryInputToItsModules(t *testing.T) {
	tests := []struct {
		file, call, to string
		// other are inputs that are not passed on under their own name.
		other []string
	}{
		{"eks/cluster.tf", "cluster", "eks-cluster", []string{"auto_mode", "cluster_addons", "compute", "compute_exists"}},
		{"eks/karpenter.tf", "karpenter_iam", "karpenter-iam", []string{
			"cluster_name", "oidc_provider_arn", "oidc_issuer_url", "service_accounts", "iam_roles", "iam_roles_attachments", "create_node_role", "node_role_name",
			"node_role_arn", "create_instance_profile", "node_instance_profile_name", "node_policy_arns", "cni_policy", "ssm_policy", "create_access_entry", "interruption_queue", "queue_name",
		}},
	}
	for _, tt := range tests {
		text, err := os.ReadFile(filepath.Join(tree, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		body, err := parse(text, tt.file)
		if err != nil {
			t.Fatal(err)
		}
		files, err := readTerraform(filepath.Join(tree, tt.to))
		if err != nil {
			t.Fatal(err)
		}
		child, err := declared(files)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "module" && b.Labels[0] == tt.call })
		if at < 0 {
			t.Fatalf("%s does not call %s", tt.file, tt.call)
		}
		for _, in := range child.inputs {
			if got := sourceText(body.Blocks[at].Body, in.name, text); got != "var."+in.name && !slices.Contains(tt.other, in.name) {
				t.Errorf("%s passes %q to %s.%s", tt.file, got, tt.call, in.name)
			}
		}
	}
}
