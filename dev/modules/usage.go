package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// usageOf is the module whose README has a configuration that users copy.
const usageOf = "Karpenter"

// usageMocks is a test that begins with mocks of all providers of the configuration.
const usageMocks = "eks-v1/tests/eks_v1.tftest.hcl"

// usageRun plans the configuration.
const usageRun = `
run "usage" {
  command = plan

  assert {
    condition     = length(module.karpenter.karpenter_releases) == 1
    error_message = "The configuration installs a release."
  }
}
`

// checkUsage plans the configuration in the README of the module Karpenter as it stands.
func (w *workspace) checkUsage(ctx context.Context) (string, error) {
	readme, err := os.ReadFile(filepath.Join(w.copied, usageOf, "README.md"))
	if err != nil {
		return "", fmt.Errorf("reading the README: %w", err)
	}
	text, err := usageBlock(string(readme))
	if err != nil {
		return "", err
	}
	test, err := os.ReadFile(filepath.Join(w.copied, usageMocks))
	if err != nil {
		return "", fmt.Errorf("reading the mocks: %w", err)
	}
	mocks, _, _ := strings.Cut(string(test), "\nvariables {")
	dir := filepath.Join(w.dir, "usage")
	if err := os.MkdirAll(filepath.Join(dir, "tests"), 0o755); err != nil {
		return "", fmt.Errorf("creating the configuration: %w", err)
	}
	if err := os.Symlink(w.copied, filepath.Join(dir, "modules")); err != nil {
		return "", fmt.Errorf("creating the configuration: %w", err)
	}
	for name, content := range map[string]string{"main.tf": text, "karpenter-values.yaml": "replicas: 2\n", "tests/usage.tftest.hcl": mocks + usageRun} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("writing the configuration: %w", err)
		}
	}
	if err := w.validate(ctx, dir); err != nil {
		return "", err
	}
	return w.test(ctx, dir)
}

var hclBlock = regexp.MustCompile("(?s)```hcl\n(.*?)```")

// usageBlock returns the first configuration after the heading Usage.
func usageBlock(readme string) (string, error) {
	_, usage, found := strings.Cut(readme, "\n## Usage\n")
	if !found {
		return "", fmt.Errorf("the README has no heading Usage")
	}
	block := hclBlock.FindStringSubmatch(usage)
	if block == nil {
		return "", fmt.Errorf("the README has no configuration after the heading Usage")
	}
	return block[1], nil
}
