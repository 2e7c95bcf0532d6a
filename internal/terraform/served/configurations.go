package served

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

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
// that it uses, which are in the working directory. A module without a block gets the
// configuration of the module that calls it, and the root module has an empty one. So a block in
// another module than the root is always a further one.
func readConfigurations(dir, root string) (configurations, error) {
	found := configurations{blocks: map[string]int{}, addresses: map[string]bool{}, others: map[string]bool{}}
	dirs, err := moduleDirs(dir, root)
	if err != nil {
		return found, err
	}
	for i, dir := range dirs {
		files, err := inspect.ReadDir(dir)
		if err != nil {
			return found, err
		}
		module := inspect.Files(files)
		if module.Diagnostics.HasErrors() {
			return found, errNotReadable
		}
		for name, provider := range module.Providers {
			address := providerAddress(name, provider.Source)
			found.addresses[address] = true
			if provider.Aliases || filepath.Base(address) != name {
				found.others[address] = true
			}
		}
		blocks, err := readBlocks(files)
		if err != nil {
			return found, err
		}
		for _, block := range blocks {
			address := providerAddress(block.provider, module.Providers[block.provider].Source)
			if isRoot := i == 0; !isRoot || block.several || !block.static {
				found.others[address] = true
			}
			found.addresses[address] = true
			found.blocks[address]++
		}
	}
	return found, nil
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
	content, err := readManifest(dir, root)
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
		used := filepath.FromSlash(module.Dir)
		if !filepath.IsAbs(used) {
			used = filepath.Join(root, used)
		}
		used, err := filepath.EvalSymlinks(used)
		if err != nil {
			return nil, errNotReadable
		}
		if relative, err := filepath.Rel(inside, used); err != nil || !filepath.IsLocal(relative) {
			return nil, errNotReadable
		}
		dirs = append(dirs, used)
	}
	return dirs, nil
}

// readManifest reads the list of modules that an init has fetched. A link in the root module must
// not lead out of the working directory.
func readManifest(dir, root string) ([]byte, error) {
	relative, err := filepath.Rel(dir, root)
	if err != nil {
		return nil, err
	}
	opened, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	return opened.ReadFile(filepath.Join(relative, dataDir, "modules", "modules.json"))
}

// block is a configuration of a provider: a provider block.
type block struct {
	// provider is the local name of the provider.
	provider string
	// several is set if the block is not the only configuration of the provider, or stands
	// for more than one: it has an alias or for_each.
	several bool
	// static is set if the arguments depend on nothing but variables, so that they are known
	// before a plan.
	static bool
}

var (
	configurationSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "provider", LabelNames: []string{"name"}}, {Type: "locals"},
	}}
	severalSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "alias"}, {Name: "for_each"}}}
)

// readBlocks returns the provider blocks of all files of a module, also those that an override file
// merges into another. It returns an error if the module may call functions of a provider: they
// may depend on its configuration, and the tool calls them before and after it configures the
// provider, in processes of their own.
func readBlocks(files map[string][]byte) ([]block, error) {
	locals := locals{}
	var found hcl.Blocks
	for name, content := range files {
		if !terraform.IsConfig(name) {
			continue
		}
		if callsNamespaced(name, content) {
			return nil, errNotReadable
		}
		body, _ := inspect.Parse(name, content)
		if body == nil {
			return nil, errNotReadable
		}
		declared, _, _ := body.PartialContent(configurationSchema) // The module has no errors.
		for _, block := range declared.Blocks {
			if block.Type == "provider" {
				found = append(found, block)
				continue
			}
			attributes, _ := block.Body.JustAttributes()
			for name, attribute := range attributes {
				locals[name] = append(locals[name], attribute.Expr)
			}
		}
	}
	blocks := make([]block, len(found))
	for i, of := range found {
		content, _, _ := of.Body.PartialContent(severalSchema)
		blocks[i] = block{
			provider: of.Labels[0], several: len(content.Attributes) > 0,
			static: locals.areStatic(expressions(of.Body), map[string]bool{}),
		}
	}
	return blocks, nil
}

// callsNamespaced reports whether a file may call a function with a namespace, as those of
// providers have. In JSON, all strings may, and can escape the colons.
func callsNamespaced(name string, content []byte) bool {
	if strings.HasSuffix(name, ".json") {
		return bytes.Contains(content, []byte("::")) || bytes.Contains(content, []byte(`\u`))
	}
	tokens, _ := hclsyntax.LexConfig(content, name, hcl.InitialPos)
	return slices.ContainsFunc(tokens, func(token hclsyntax.Token) bool { return token.Type == hclsyntax.TokenDoubleColon })
}

// expressions returns the expressions of a body and of the blocks in it, or nil elements for
// what cannot be read.
func expressions(body hcl.Body) []hcl.Expression {
	var found []hcl.Expression
	native, isNative := body.(*hclsyntax.Body)
	if !isNative {
		// In JSON, blocks are attributes as well.
		attributes, problems := body.JustAttributes()
		if problems.HasErrors() {
			return []hcl.Expression{nil}
		}
		for _, attribute := range attributes {
			found = append(found, attribute.Expr)
		}
		return found
	}
	for _, attribute := range native.Attributes {
		found = append(found, attribute.Expr)
	}
	for _, block := range native.Blocks {
		found = append(found, expressions(block.Body)...)
	}
	return found
}

// locals are the local values of a module. An override file adds another expression.
type locals map[string][]hcl.Expression

// areStatic reports whether expressions depend on nothing but variables. Checked are the local
// values that need no further check.
func (l locals) areStatic(all []hcl.Expression, checked map[string]bool) bool {
	for _, expr := range all {
		if expr == nil {
			return false
		}
		for _, traversal := range expr.Variables() {
			switch traversal.RootName() {
			case "var", "path", "terraform":
			case "local":
				if len(traversal) < 2 {
					return false
				}
				step, isAttribute := traversal[1].(hcl.TraverseAttr)
				if !isAttribute || len(l[step.Name]) == 0 {
					return false
				}
				if checked[step.Name] {
					continue
				}
				checked[step.Name] = true
				if !l.areStatic(l[step.Name], checked) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}
