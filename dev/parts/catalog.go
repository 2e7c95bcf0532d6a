package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// part is one third-party program.
type part struct {
	// name is the file name of the program.
	name string
	// module is the directory below dev/bin whose go.mod pins it.
	module string
	// pkg is the main package.
	pkg string
	// versionOf is the module whose pinned version is the program's.
	versionOf string
	// versionArgs make the program print its version. If empty, only a program of the
	// cache is used.
	versionArgs []string
	// stamp are the linker flags that set the program's version. VERSION, MAJOR and
	// MINOR are replaced.
	stamp string
	// services, if set, are the services that Terraform's AWS provider is built with.
	// See trim.go.
	services []string
	// groups are the groups of the program.
	groups []string
}

const (
	// groupTest contains the programs of unit and integration tests.
	groupTest = "test"
	// groupE2E contains the programs of end-to-end tests.
	groupE2E = "e2e"
	// groupQuickstart contains the programs of the local environment and its demo.
	groupQuickstart = "quickstart"
	// groupLint contains the linters and generators.
	groupLint = "lint"
	// groupScan contains the scanners for vulnerabilities.
	groupScan = "scan"
	// groupModules contains the programs of the tests of the Terraform modules.
	groupModules = "modules"
)

const kubernetesStamp = "-X k8s.io/component-base/version.gitVersion=VERSION" +
	" -X k8s.io/component-base/version.gitMajor=MAJOR -X k8s.io/component-base/version.gitMinor=MINOR"

func kubernetes(name string, groups ...string) part {
	p := part{
		name: name, module: "kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name,
		versionOf: "k8s.io/kubernetes", versionArgs: []string{"--version"}, stamp: kubernetesStamp, groups: groups,
	}
	if name == "kubectl" {
		p.versionArgs = []string{"version", "--client"}
	}
	return p
}

// etcdTool is a program that saves and restores the data of etcd.
func etcdTool(name string) part {
	module := "go.etcd.io/etcd/" + name + "/v3"
	return part{name: name, module: "etcd", pkg: module, versionOf: module, versionArgs: []string{"version"}, groups: []string{groupE2E}}
}

// catalog lists the programs in build order: those of the tests first, and programs
// that share packages next to each other.
var catalog = []part{
	{
		name: "etcd", module: "kubernetes", pkg: "go.etcd.io/etcd/server/v3", versionOf: "go.etcd.io/etcd/server/v3",
		versionArgs: []string{"--version"}, groups: []string{groupTest, groupE2E, groupQuickstart},
	},
	etcdTool("etcdctl"), etcdTool("etcdutl"),
	kubernetes("kube-apiserver", groupTest, groupE2E, groupQuickstart),
	kubernetes("kube-controller-manager", groupTest, groupE2E, groupQuickstart),
	kubernetes("kubectl", groupTest, groupE2E, groupQuickstart),
	kubernetes("kube-scheduler", groupTest, groupE2E, groupQuickstart),
	kubernetes("kubelet", groupE2E),
	{
		name: "tofu", module: "opentofu", pkg: "github.com/opentofu/opentofu/cmd/tofu", versionOf: "github.com/opentofu/opentofu",
		versionArgs: []string{"version"}, stamp: "-X github.com/opentofu/opentofu/version.dev=no", groups: []string{groupTest, groupE2E, groupQuickstart, groupModules},
	},
	{
		name: "terraform-provider-aws", module: "provider-aws", pkg: "github.com/hashicorp/terraform-provider-aws",
		versionOf: "github.com/hashicorp/terraform-provider-aws", groups: []string{groupModules},
		// The pinned commit is not a tag of a Go module. This is its release.
		stamp:    "-X github.com/hashicorp/terraform-provider-aws/version.ProviderVersion=6.47.1",
		services: []string{"ec2", "eks", "events", "iam", "kms", "logs", "meta", "sqs", "ssm", "sts"},
	},
	{
		name: "terraform-provider-helm-standin", module: "charts", pkg: "github.com/appthrust/capt/dev/bin/charts/provider-helm-standin",
		versionOf: "helm.sh/helm/v4", groups: []string{groupModules, groupE2E},
	},
	{
		name: "terraform-provider-local", module: "provider-local", pkg: "github.com/terraform-providers/terraform-provider-local",
		versionOf: "github.com/terraform-providers/terraform-provider-local", groups: []string{groupTest, groupE2E},
	},
	{
		name: "cluster-api", module: "cluster-api", pkg: "sigs.k8s.io/cluster-api/core", versionOf: "sigs.k8s.io/cluster-api",
		groups: []string{groupTest, groupE2E, groupQuickstart},
	},
	{
		name: "clusterctl", module: "cluster-api", pkg: "sigs.k8s.io/cluster-api/cmd/clusterctl", versionOf: "sigs.k8s.io/cluster-api",
		groups: []string{groupTest, groupE2E},
	},
	{
		name: "kwok", module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", versionOf: "sigs.k8s.io/kwok",
		versionArgs: []string{"--version"}, stamp: "-X sigs.k8s.io/kwok/pkg/consts.Version=VERSION", groups: []string{groupTest, groupE2E, groupQuickstart},
	},
	{
		name: "helm-controller", module: "flux", pkg: "github.com/fluxcd/helm-controller", versionOf: "github.com/fluxcd/helm-controller",
		groups: []string{groupE2E, groupQuickstart},
	},
	{
		name: "source-controller", module: "flux", pkg: "github.com/fluxcd/source-controller", versionOf: "github.com/fluxcd/source-controller",
		groups: []string{groupE2E, groupQuickstart},
	},
	{
		name: "karpenter-kwok", module: "karpenter-kwok", pkg: "sigs.k8s.io/karpenter/kwok", versionOf: "sigs.k8s.io/karpenter",
		groups: []string{groupE2E, groupQuickstart},
	},
	{
		name: "charts", module: "charts", pkg: "github.com/appthrust/capt/dev/bin/charts", versionOf: "helm.sh/helm/v4",
		groups: []string{groupE2E, groupQuickstart},
	},
	{
		name: "helm", module: "charts", pkg: "helm.sh/helm/v4/cmd/helm", versionOf: "helm.sh/helm/v4", versionArgs: []string{"version"},
		stamp: "-X helm.sh/helm/v4/internal/version.version=VERSION", groups: []string{groupE2E},
	},
	{
		name: "fluxgen", module: "fluxgen", pkg: "github.com/appthrust/capt/dev/bin/fluxgen", versionOf: "github.com/fluxcd/flux2/v2",
		groups: []string{groupE2E, groupQuickstart},
	},
	{
		name: "golangci-lint", module: "golangci-lint", pkg: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint",
		versionOf: "github.com/golangci/golangci-lint/v2", versionArgs: []string{"version"}, stamp: "-X main.version=VERSION", groups: []string{groupLint},
	},
	{
		name: "controller-gen", module: "controller-gen", pkg: "sigs.k8s.io/controller-tools/cmd/controller-gen",
		versionOf: "sigs.k8s.io/controller-tools", groups: []string{groupLint},
	},
	{
		name: "govulncheck", module: "govulncheck", pkg: "golang.org/x/vuln/cmd/govulncheck", versionOf: "golang.org/x/vuln",
		groups: []string{groupScan},
	},
}

func groupNames() []string {
	seen := map[string]bool{"all": true}
	for _, p := range catalog {
		for _, g := range p.groups {
			seen[g] = true
		}
	}
	names := make([]string, 0, len(seen))
	for g := range seen {
		names = append(names, g)
	}
	sort.Strings(names)
	return names
}

// choose returns the programs with the names of programs or groups.
func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		names = []string{"all"}
	}
	var chosen []part
	for _, p := range catalog {
		if slices.ContainsFunc(names, func(n string) bool {
			return n == "all" || n == p.name || slices.Contains(p.groups, n)
		}) {
			chosen = append(chosen, p)
		}
	}
	for _, n := range names {
		if n != "all" && !slices.ContainsFunc(catalog, func(p part) bool { return p.name == n || slices.Contains(p.groups, n) }) {
			var known []string
			for _, p := range catalog {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("unknown program or group %q: groups are %s; programs are %s", n, strings.Join(groupNames(), ", "), strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
