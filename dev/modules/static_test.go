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

// A module with a provider block can be called neither with count nor with for_each. That of
// eks-v1 installs a chart in the cluster that it creates.
func TestModules_configureNoProvider(t *testing.T) {
	modules, err := findModules(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		files, err := readTerraform(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			body, err := parse(text, name)
			if err != nil {
				t.Fatal(err)
			}
			if m.name != "eks-v1" && slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "provider" }) {
				t.Errorf("%s: %s configures a provider, which only a root module should", m.name, name)
			}
		}
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
