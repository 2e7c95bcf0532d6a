package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const provider = "example.com/provider"

// source is the provider in small: two services that are listed, one that only
// another one uses, and a client for each.
var source = map[string]string{
	"main.go": "package main\n\nimport _ \"" + provider + "/internal/provider/sdkv2\"\n\nfunc main() {}\n",
	servicePackages: `package sdkv2

import (
	"context"

	"` + provider + `/internal/conns"
	"` + provider + `/internal/service/ec2"
	legacy "` + provider + `/internal/service/s3"
)

func list(ctx context.Context) []conns.ServicePackage {
	return []conns.ServicePackage{
		ec2.ServicePackage(ctx),
		legacy.ServicePackage(ctx),
	}
}
`,
	serviceClients: `package conns

import (
	"context"

	"sdk/service/ec2"
	"sdk/service/kms"
	"sdk/service/s3"
	"` + provider + `/names"
)

func (c *AWSClient) EC2Client(ctx context.Context) *ec2.Client {
	return client[*ec2.Client](ctx, c, names.EC2)
}

func (c *AWSClient) KMSClient(ctx context.Context) *kms.Client {
	return client[*kms.Client](ctx, c, names.KMS)
}

func (c *AWSClient) S3Client(ctx context.Context) *s3.Client {
	return client[*s3.Client](ctx, c, names.S3)
}
`,
	"internal/conns/awsclient.go":       "package conns\n\ntype AWSClient struct{}\n",
	"internal/service/ec2/instance.go":  "package ec2\n\nimport \"" + provider + "/internal/service/kms\"\n\nfunc f() { kms.Find(c.EC2Client(ctx)) }\n",
	"internal/service/ec2/more_test.go": "package ec2\n\nfunc g() { c.S3Client(ctx) }\n",
	"internal/service/kms/key.go":       "package kms\n\nfunc Find(x any) { _ = meta.KMSClient(ctx) }\n",
	"internal/service/s3/bucket.go":     "package s3\n\nfunc f() { c.S3Client(ctx) }\n",
	"names/names.go":                    "package names\n",
	"internal/service/ec2/testdata/big": "x",
	"website/index.html":                "x",
	"docs/a.md":                         "x",
	"internal/embedded.json":            "{}",
}

func writeSource(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTrim_leavesTheServicesAndTheClientsTheyUse(t *testing.T) {
	dir := writeSource(t, source)
	if err := trim(dir, provider, []string{"ec2"}); err != nil {
		t.Fatal(err)
	}
	listed := read(t, dir, servicePackages)
	for _, word := range []string{"legacy", "service/s3"} {
		if strings.Contains(listed, word) {
			t.Errorf("the list still has %s:\n%s", word, listed)
		}
	}
	for _, word := range []string{"\t\tec2.ServicePackage(ctx),\n", "service/ec2\"", `"context"`, "internal/conns\""} {
		if !strings.Contains(listed, word) {
			t.Errorf("the list has lost %s:\n%s", word, listed)
		}
	}
	for name, text := range source {
		if name != servicePackages && name != serviceClients && read(t, dir, name) != text {
			t.Errorf("%s was changed", name)
		}
	}
	// KMS is in no list, but EC2 needs it.
	clients := read(t, dir, serviceClients)
	for _, word := range []string{"EC2Client", "KMSClient", "sdk/service/kms", "/names\""} {
		if !strings.Contains(clients, word) {
			t.Errorf("the clients have lost %s:\n%s", word, clients)
		}
	}
	for _, word := range []string{"S3", "sdk/service/s3"} {
		if strings.Contains(clients, word) {
			t.Errorf("the clients still have %s, which only a test and another service use:\n%s", word, clients)
		}
	}
}

func TestTrim_refusesAServiceThatDoesNotExist(t *testing.T) {
	dir := writeSource(t, source)
	if err := trim(dir, provider, []string{"ec2", "ec3"}); err == nil || !strings.Contains(err.Error(), `"ec3"`) {
		t.Errorf("the error is %v", err)
	}
	if err := trim(t.TempDir(), provider, nil); err == nil {
		t.Error("an empty directory was taken for the provider")
	}
}

func TestCopySource_leavesTestsAndDocumentationBehind(t *testing.T) {
	from, to := writeSource(t, source), t.TempDir()
	if err := copySource(from, to); err != nil {
		t.Fatal(err)
	}
	for name, text := range source {
		left := strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata") || strings.HasPrefix(name, "website/") || strings.HasPrefix(name, "docs/")
		got, err := os.ReadFile(filepath.Join(to, name))
		switch {
		case left && err == nil:
			t.Errorf("%s was copied", name)
		case !left && string(got) != text:
			t.Errorf("%s was not copied: %v", name, err)
		}
	}
}
