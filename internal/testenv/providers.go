package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Provider is a provider of HashiCorp that `make parts` builds, in the version that modules
// require.
type Provider struct{ Part, Name, Version string }

// The providers of modules. That of Helm is a stand-in.
var (
	AWSProvider   = Provider{"terraform-provider-aws", "aws", "6.47.1"}
	HelmProvider  = Provider{"terraform-provider-helm-standin", "helm", "3.0.2"}
	LocalProvider = Provider{"terraform-provider-local", "local", "2.9.0"}
)

// Path returns the path of the program in a mirror.
func (p Provider) Path() string {
	return filepath.Join("registry.opentofu.org", "hashicorp", p.Name, p.Version, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-"+p.Name+"_v"+p.Version)
}

// MirrorProviders creates a mirror in a directory, from which the tool installs providers
// without a network, and returns the path of its CLI configuration.
func MirrorProviders(dir string, providers ...Provider) (config string, err error) {
	mirror := filepath.Join(dir, "mirror")
	for _, p := range providers {
		part, err := Part(p.Part)
		if err != nil {
			return "", err
		}
		program, err := filepath.EvalSymlinks(part)
		if err != nil {
			return "", fmt.Errorf("finding a provider: %w", err)
		}
		link := filepath.Join(mirror, p.Path())
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return "", fmt.Errorf("creating a mirror: %w", err)
		}
		if err := os.Symlink(program, link); err != nil {
			return "", fmt.Errorf("creating a mirror: %w", err)
		}
	}
	config = filepath.Join(dir, "tofu.rc")
	return config, WriteMirrorConfig(config, mirror)
}

// WriteMirrorConfig writes a CLI configuration with which the tool takes providers only from a
// mirror.
func WriteMirrorConfig(path, mirror string) error {
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the tool's configuration: %w", err)
	}
	return nil
}
