package served

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/mod/sumdb/dirhash"
)

// lockedProvider is an installed provider of the dependency lock file.
type lockedProvider struct {
	// address is the source of the provider, such as registry.opentofu.org/hashicorp/aws.
	address string
	program string
}

var lockSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "provider", LabelNames: []string{"address"}}}}

// readLocks returns the blocks of a dependency lock file.
func readLocks(content []byte) (hcl.Blocks, error) {
	file, problems := hclparse.NewParser().ParseHCL(content, "")
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
	dir, err := filepath.EvalSymlinks(filepath.Join(root, dataDir, "providers", filepath.FromSlash(address), version, runtime.GOOS+"_"+runtime.GOARCH))
	if err != nil {
		return lockedProvider{}, fmt.Errorf("finding the provider: %w", err)
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
