// Command verify checks what compilers and linters do not: every go.mod pins the
// versions of versions.mk, the built-in add-ons install them, tests clean up with a context
// that has not ended, the workflows of GitHub Actions are valid, and the released programs
// link only modules with known licences.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// pins maps each variable of versions.mk to the module whose version it is, and
// to the go.mod files that require it.
var pins = []struct {
	variable string
	module   string
	files    []string
}{
	{"CLUSTER_API_VERSION", "sigs.k8s.io/cluster-api", []string{"go.mod", "dev/bin/cluster-api/go.mod"}},
	{"CLUSTER_API_VERSION", "sigs.k8s.io/cluster-api/api", []string{"go.mod", "api/go.mod"}},
	{"CONTROLLER_RUNTIME_VERSION", "sigs.k8s.io/controller-runtime", []string{"go.mod"}},
	{"KUBERNETES_LIBRARY_VERSION", "k8s.io/api", []string{"go.mod", "api/go.mod"}},
	{"KUBERNETES_LIBRARY_VERSION", "k8s.io/apimachinery", []string{"go.mod", "api/go.mod"}},
	{"KUBERNETES_LIBRARY_VERSION", "k8s.io/client-go", []string{"go.mod"}},
	{"KUBERNETES_VERSION", "k8s.io/kubernetes", []string{"dev/bin/kubernetes/go.mod"}},
	{"ETCD_VERSION", "go.etcd.io/etcd/server/v3", []string{"dev/bin/kubernetes/go.mod"}},
	{"ETCD_VERSION", "go.etcd.io/etcd/etcdctl/v3", []string{"dev/bin/etcd/go.mod"}},
	{"ETCD_VERSION", "go.etcd.io/etcd/etcdutl/v3", []string{"dev/bin/etcd/go.mod"}},
	{"KWOK_VERSION", "sigs.k8s.io/kwok", []string{"dev/bin/kwok/go.mod"}},
	{"KARPENTER_VERSION", "sigs.k8s.io/karpenter", []string{"dev/bin/karpenter-kwok/go.mod"}},
	{"OPENTOFU_VERSION", "github.com/opentofu/opentofu", []string{"dev/bin/opentofu/go.mod"}},
	{"AWS_PROVIDER_VERSION", "github.com/hashicorp/terraform-provider-aws", []string{"dev/bin/provider-aws/go.mod"}},
	{"LOCAL_PROVIDER_VERSION", "github.com/terraform-providers/terraform-provider-local", []string{"dev/bin/provider-local/go.mod"}},
	{"FLUX_VERSION", "github.com/fluxcd/flux2/v2", []string{"dev/bin/fluxgen/go.mod"}},
	{"HELM_VERSION", "helm.sh/helm/v4", []string{"dev/bin/charts/go.mod"}},
	{"HELM_CONTROLLER_VERSION", "github.com/fluxcd/helm-controller", []string{"dev/bin/flux/go.mod"}},
	{"SOURCE_CONTROLLER_VERSION", "github.com/fluxcd/source-controller", []string{"dev/bin/flux/go.mod"}},
	{"GOLANGCI_LINT_VERSION", "github.com/golangci/golangci-lint/v2", []string{"dev/bin/golangci-lint/go.mod"}},
	{"CONTROLLER_TOOLS_VERSION", "sigs.k8s.io/controller-tools", []string{"dev/bin/controller-gen/go.mod"}},
	{"GOVULNCHECK_VERSION", "golang.org/x/vuln", []string{"dev/bin/govulncheck/go.mod"}},
}

// addons maps a variable to the add-on that installs the version.
var addons = []struct{ variable, file string }{
	{"FLUX_VERSION", "addons/fluxcd.yaml"},
	{"KARPENTER_VERSION", "addons/karpenter.yaml"},
}

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := errors.Join(verifyVersions(*root), verifyCleanups(*root), verifyWorkflows(*root), verifyLicences(*root)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func verifyVersions(root string) error {
	const versions = "versions.mk"
	text, err := os.ReadFile(filepath.Join(root, versions))
	if err != nil {
		return fmt.Errorf("reading the versions: %w", err)
	}
	var errs []error
	for _, pin := range pins {
		want, err := match(text, `(?m)^`+regexp.QuoteMeta(pin.variable)+`\s*:=\s*(\S+)`)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: no %s", versions, pin.variable))
			continue
		}
		for _, file := range pin.files {
			mod, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				errs = append(errs, fmt.Errorf("reading a module: %w", err))
				continue
			}
			have, err := match(mod, `(?m)^\s*(?:require\s+)?`+regexp.QuoteMeta(pin.module)+`\s+(v\S+)`)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s is not required", file, pin.module))
			} else if have != want {
				errs = append(errs, fmt.Errorf("%s: %s is %s, but %s says %s", file, pin.module, have, versions, want))
			}
		}
	}
	errs = append(errs, verifyGo(text, root))
	for _, addon := range addons {
		errs = append(errs, verifyAddon(text, versions, root, addon.variable, addon.file))
	}
	return errors.Join(errs...)
}

// verifyAddon checks that an add-on installs the version that a variable names.
func verifyAddon(text []byte, versions, root, variable, file string) error {
	want, err := match(text, `(?m)^`+regexp.QuoteMeta(variable)+`\s*:=\s*v(\S+)`)
	if err != nil {
		return fmt.Errorf("%s: no %s", versions, variable)
	}
	addon, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return fmt.Errorf("reading an add-on: %w", err)
	}
	if have, err := match(addon, `(?m)^ +version: (\S+)$`); err != nil || have != want {
		return fmt.Errorf("%s: installs %q, but %s says %s", file, have, versions, want)
	}
	return nil
}

func match(text []byte, pattern string) (string, error) {
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		return "", errors.New("not found")
	}
	return string(m[1]), nil
}
