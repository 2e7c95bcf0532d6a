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

// usageTest plans the configuration with mocked providers.
const usageTest = `mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_eks_addon_version" {
    defaults = { version = "v1.0.0-eksbuild.1" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      arn                   = "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
      endpoint              = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
      certificate_authority = [{ data = "Q0E=" }]
      identity              = [{ oidc = [{ issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }] }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/Mocked" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/Mocked" }
  }
}

mock_provider "helm" {}

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
	dir := filepath.Join(w.dir, "usage")
	if err := os.MkdirAll(filepath.Join(dir, "tests"), 0o755); err != nil {
		return "", fmt.Errorf("creating the configuration: %w", err)
	}
	if err := os.Symlink(w.copied, filepath.Join(dir, "modules")); err != nil {
		return "", fmt.Errorf("creating the configuration: %w", err)
	}
	for name, content := range map[string]string{"main.tf": text, "karpenter-values.yaml": "replicas: 2\n", "tests/usage.tftest.hcl": usageTest} {
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
