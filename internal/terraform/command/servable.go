package command

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/appthrust/capt/internal/terraform/inspect"
)

// lockedProvider is a provider of the dependency lock file.
type lockedProvider struct {
	// address is the source of the provider, such as registry.opentofu.org/hashicorp/aws.
	address string
	program string
}

// servable returns the providers that can serve several commands, or nil.
func (s *Session) servable() []lockedProvider {
	if s.product != OpenTofu || s.wantsOwnProviders() || !hasSingleConfigurations(s.Root) {
		return nil
	}
	providers, err := s.lockedProviders()
	if err != nil {
		// The tool reports what is wrong.
		return nil
	}
	return providers
}

// wantsOwnProviders reports whether the user wants to see the logs of the providers, or
// replaces them.
func (s *Session) wantsOwnProviders() bool {
	config := ""
	for _, entry := range s.env {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && (name == reattachEnv || strings.HasPrefix(name, "TF_LOG")) {
			return true
		}
		if name == cliConfigEnv {
			config = value
		}
	}
	content, err := os.ReadFile(config)
	return err != nil || strings.Contains(string(content), "dev_overrides")
}

// hasSingleConfigurations reports whether a module and the modules that it uses configure
// each provider once at most. A provider with another local name than its own may be
// configured under both.
func hasSingleConfigurations(root string) bool {
	dirs, err := moduleDirs(root)
	if err != nil {
		return false
	}
	configured := map[string]bool{}
	for _, dir := range dirs {
		module, err := inspect.Dir(dir)
		if err != nil || module.Diagnostics.HasErrors() {
			return false
		}
		for name, provider := range module.Providers {
			if source := strings.ToLower(provider.Source); source != "" && source[strings.LastIndex(source, "/")+1:] != name {
				return false
			}
		}
		for _, configuration := range module.Configurations {
			if configuration.Alias || configured[configuration.Provider] {
				return false
			}
			configured[configuration.Provider] = true
		}
	}
	return true
}

// moduleDirs returns the directories of the root module and of the modules that it uses.
func moduleDirs(root string) ([]string, error) {
	dirs := []string{root}
	content, err := os.ReadFile(filepath.Join(root, dataDir, "modules", "modules.json"))
	if errors.Is(err, os.ErrNotExist) {
		return dirs, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller only needs to know that there is one.
	}
	var manifest struct{ Modules []struct{ Dir string } }
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, err //nolint:wrapcheck // The caller only needs to know that there is one.
	}
	for _, module := range manifest.Modules {
		// Modules may share a directory: each configures its providers, then.
		if dir := inDir(root, filepath.FromSlash(module.Dir)); filepath.Clean(dir) != filepath.Clean(root) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

var lockSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "provider", LabelNames: []string{"address"}}}}

// lockedProviders returns the installed providers of the dependency lock file. As the tool
// does before it starts one, it compares their checksums.
func (s *Session) lockedProviders() ([]lockedProvider, error) {
	content, err := s.LockFile()
	if err != nil || content == nil {
		return nil, err
	}
	file, problems := hclparse.NewParser().ParseHCL(content, dependencyLock)
	if problems.HasErrors() {
		return nil, problems
	}
	locks, _, problems := file.Body.PartialContent(lockSchema)
	if problems.HasErrors() {
		return nil, problems
	}
	var providers []lockedProvider
	for _, block := range locks.Blocks {
		provider, err := readLock(s.Root, block)
		if err != nil {
			return nil, err
		}
		providers = append(providers, provider)
	}
	return providers, nil
}

var errNotInstalled = errors.New("the provider of the dependency lock file is not installed")

// readLock returns a provider of the dependency lock file.
func readLock(root string, block *hcl.Block) (lockedProvider, error) {
	attributes, problems := block.Body.JustAttributes()
	if problems.HasErrors() {
		return lockedProvider{}, problems
	}
	version, address := constant(attributes["version"]), block.Labels[0]
	if version == "" || !filepath.IsLocal(filepath.FromSlash(address)) || !filepath.IsLocal(version) {
		return lockedProvider{}, errNotInstalled
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, dataDir, "providers", filepath.FromSlash(address), version, platform))
	if err != nil {
		return lockedProvider{}, err //nolint:wrapcheck // The caller only needs to know that there is one.
	}
	sum, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err != nil || !slices.Contains(constants(attributes["hashes"]), sum) {
		return lockedProvider{}, errNotInstalled
	}
	programs, err := filepath.Glob(filepath.Join(dir, "terraform-provider-"+filepath.Base(address)+"*"))
	if err != nil || len(programs) != 1 {
		return lockedProvider{}, errNotInstalled
	}
	return lockedProvider{address: address, program: programs[0]}, nil
}

// constant returns the value of an attribute that is a constant string, or an empty string.
func constant(attribute *hcl.Attribute) string {
	if values := constants(attribute); len(values) == 1 {
		return values[0]
	}
	return ""
}

// constants returns the constant strings of an attribute.
func constants(attribute *hcl.Attribute) []string {
	if attribute == nil {
		return nil
	}
	value, problems := attribute.Expr.Value(nil)
	if problems.HasErrors() || !value.IsWhollyKnown() || value.IsNull() {
		return nil
	}
	if value.Type() == cty.String {
		return []string{value.AsString()}
	}
	var values []string
	if value.CanIterateElements() {
		for _, element := range value.AsValueSlice() {
			if element.Type() == cty.String && !element.IsNull() {
				values = append(values, element.AsString())
			}
		}
	}
	return values
}
