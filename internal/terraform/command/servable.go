package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// reattachEnv is the environment variable with the providers that the tool uses without
// starting them.
const reattachEnv = "TF_REATTACH_PROVIDERS"

// lockedProvider is an installed provider of the dependency lock file.
type lockedProvider struct {
	// address is the source of the provider, such as registry.opentofu.org/hashicorp/aws.
	address string
	program string
}

// servable returns the providers that can serve several commands. The tool reports what is
// wrong with the others.
func (s *Session) servable() []lockedProvider {
	if s.product != OpenTofu || s.wantsOwnProviders() {
		return nil
	}
	configurations, err := readConfigurations(s.dir(), s.Root)
	if err != nil {
		return nil
	}
	locks, err := s.providerLocks()
	if err != nil {
		return nil
	}
	labels := make([]string, len(locks))
	for i, lock := range locks {
		labels[i] = lock.Labels[0]
	}
	// The tool reads addresses that are written otherwise as the same, such as with a port, so
	// the configurations of an unknown one may be those of another.
	for address := range configurations.addresses {
		if !slices.Contains(labels, address) {
			return nil
		}
	}
	var found []lockedProvider
	for _, lock := range locks {
		if !configurations.isSingle(lock.Labels[0]) {
			continue
		}
		if provider, err := readLock(s.Root, lock); err == nil {
			found = append(found, provider)
		}
	}
	return found
}

// wantsOwnProviders reports whether the user turned the serving of providers off, wants to see
// the logs of the providers, replaces them, or has their files elsewhere.
func (s *Session) wantsOwnProviders() bool {
	if os.Getenv(ServeEnv) == serveOff {
		return true
	}
	config := ""
	for _, entry := range s.env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case value == "":
		case name == reattachEnv, name == "TF_DATA_DIR", strings.HasPrefix(name, "TF_LOG"), name == ServeEnv && value == serveOff:
			return true
		case name == cliConfigEnv:
			config = value
		}
	}
	content, err := os.ReadFile(config)
	return err != nil || strings.Contains(string(content), "dev_overrides")
}

// configurations are the configurations of providers in a module and in those that it uses.
type configurations struct {
	// blocks is the number of blocks of the root module, by the address of the provider.
	blocks map[string]int
	// addresses are those of all providers that modules name.
	addresses map[string]bool
	// others are providers that may have further configurations, or one that is not known
	// before the plan.
	others map[string]bool
}

// isSingle reports whether a provider has one configuration, which may be empty.
func (c configurations) isSingle(address string) bool {
	return c.blocks[address] <= 1 && !c.others[address]
}

var errNotReadable = errors.New("the module cannot be read")

// readConfigurations reads the configurations of providers in the root module and in all modules
// that it uses, which are in the working directory. A module without a block gets the configuration of the module that calls it, and
// the root module has an empty one. So a block in another module than the root is always a
// further one.
func readConfigurations(dir, root string) (configurations, error) {
	found := configurations{blocks: map[string]int{}, addresses: map[string]bool{}, others: map[string]bool{}}
	dirs, err := moduleDirs(dir, root)
	if err != nil {
		return found, err
	}
	for i, dir := range dirs {
		module, err := readModule(dir)
		if err != nil {
			return found, err
		}
		// Functions of a provider may depend on its configuration: the tool calls them before
		// and after it configures the provider, in processes of their own.
		if module.Diagnostics.HasErrors() || module.CallsProviders {
			return found, errNotReadable
		}
		for name, provider := range module.Providers {
			address := providerAddress(name, provider.Source)
			found.addresses[address] = true
			if provider.Aliases || filepath.Base(address) != name {
				found.others[address] = true
			}
		}
		for _, configuration := range module.Configurations() {
			address := providerAddress(configuration.Provider, module.Providers[configuration.Provider].Source)
			if isRoot := i == 0; !isRoot || configuration.Several || !configuration.Static {
				found.others[address] = true
			}
			found.addresses[address] = true
			found.blocks[address]++
		}
	}
	return found, nil
}

// readModule reads the declarations of the module in a directory.
func readModule(dir string) (*inspect.Module, error) {
	if err := checkFiles(dir, func(name string) bool { return isConfig(name) || terraform.IsAutoVars(name) }); err != nil {
		return nil, err
	}
	return inspect.Dir(dir)
}

// The parts of a provider's address that sources can omit.
const (
	defaultHost      = "registry.opentofu.org"
	defaultNamespace = "hashicorp"
)

// providerAddress returns the address of a provider with a local name and a source, which may be
// empty.
func providerAddress(name, source string) string {
	source = strings.ToLower(source)
	switch strings.Count(source, "/") {
	case 0:
		if source == "" {
			source = strings.ToLower(name)
		}
		return defaultHost + "/" + defaultNamespace + "/" + source
	case 1:
		return defaultHost + "/" + source
	default:
		return source
	}
}

// moduleDirs returns the directories of the root module, which is the first, and of the modules
// that it uses.
func moduleDirs(dir, root string) ([]string, error) {
	dirs := []string{root}
	content, err := readInside(dir, filepath.Join(root, dataDir, "modules", manifestName))
	if errors.Is(err, os.ErrNotExist) {
		return dirs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of modules: %w", err)
	}
	var manifest struct{ Modules []struct{ Key, Dir string } }
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("reading the list of modules: %w", err)
	}
	inside, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the list of modules: %w", err)
	}
	for _, module := range manifest.Modules {
		if module.Key == "" {
			continue
		}
		used, err := filepath.EvalSymlinks(inDir(root, filepath.FromSlash(module.Dir)))
		if err != nil || !isWithin(used, inside) {
			return nil, errNotReadable
		}
		dirs = append(dirs, used)
	}
	return dirs, nil
}

// maxFiles limits the files of a module or provider that are read.
const maxFiles = 1000

// checkFiles returns an error if a directory has many files, or one that is read and never ends:
// code of the module may have created it.
func checkFiles(dir string, isRead func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if isRead(entry.Name()) && (err != nil || !info.Mode().IsRegular()) || len(entries) > maxFiles {
			return errNotReadable
		}
	}
	return nil
}

var lockSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "provider", LabelNames: []string{"address"}}}}

// providerLocks returns the blocks of the dependency lock file.
func (s *Session) providerLocks() (hcl.Blocks, error) {
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
	return locks.Blocks, nil
}

var errNotInstalled = errors.New("the provider of the dependency lock file is not installed")

// readLock returns a provider of the dependency lock file. As the tool does before it starts
// one, it compares the checksum.
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
		return lockedProvider{}, fmt.Errorf("finding the provider: %w", err)
	}
	if err := checkFiles(dir, func(string) bool { return true }); err != nil {
		return lockedProvider{}, err
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
