package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/appthrust/capt/internal/elements"
)

const (
	// maxMemory limits what the documents of a text need when they are decoded, or written as
	// YAML again. A MiB of CustomResourceDefinitions, which is more than an object of
	// Kubernetes holds, needs about 8 MiB.
	maxMemory = 16 << 20
	// maxSmall is how many elements texts have together that need little, however they are nested.
	maxSmall = 2_000
	// MaxSmallText is how many bytes such texts have.
	MaxSmallText = 64 << 10
)

// Budget limits the memory that the documents of texts need together. The zero value is that of
// large texts.
type Budget struct {
	isSmall bool
	used    int
}

// Used estimates what the documents so far need.
func (b *Budget) Used() int { return b.used }

// NewBudget returns the budget of texts. The caller has a Turn if the texts may be large.
func NewBudget(texts ...[]byte) *Budget { return &Budget{isSmall: AreSmall(texts...)} }

// Check returns an error if YAML of users must not be decoded, as that of a Budget does. Only the
// first document is decoded.
func Check(text []byte) error { return NewBudget(text).Check(text) }

// Check returns an error if a document of the text must not be decoded: checkYAML refuses it, or
// the documents so far need too much memory.
func (b *Budget) Check(document []byte) error {
	if err := checkYAML(document); err != nil || b.isSmall {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("%w%s", errInvalid, location(err))
	}
	b.add(&root, 0)
	return b.exceeded("YAML")
}

// CheckJSON returns an error as Check does, for a document in JSON.
func (b *Budget) CheckJSON(document []byte) error {
	var count elements.Counter
	_, _ = count.Write(document)
	if err := count.Check(maxElements); err != nil {
		return fmt.Errorf("the JSON is not accepted: %w", err)
	}
	b.used += len(document) + elements.ElementSize*count.Elements + elements.MapSize*(count.Maps+count.Objects)
	return b.exceeded("JSON")
}

func (b *Budget) exceeded(format string) error {
	if b.used > maxMemory {
		return fmt.Errorf("the %s would need more than %d MiB of memory: write less, or nest it less deeply", format, maxMemory>>20)
	}
	return nil
}

// AreSmall reports whether texts need little memory together when they are decoded.
func AreSmall(texts ...[]byte) bool {
	size, count := 0, 0
	for _, text := range texts {
		if size += len(text); size > MaxSmallText {
			return false
		}
		count += elements.YAML(text)
		if count > maxSmall || elements.CheckYAML(text, maxSmall) != nil || hasAliases(text) {
			return false
		}
	}
	return true
}

// hasAliases reports whether YAML may have aliases.
func hasAliases(text []byte) bool {
	return bytes.IndexByte(text, '*') >= 0 && bytes.IndexByte(text, '&') >= 0
}

// add estimates what a node needs, with its aliases replaced: as a value, and for the indent of
// its line, which may be much longer than the text. It ends when that is too much, also for a
// node that contains itself.
func (b *Budget) add(node *yaml.Node, depth int) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	b.used += elements.ElementSize + 2*depth + len(node.Value)
	if node.Kind == yaml.MappingNode {
		b.used += elements.MapSize
	}
	for i, child := range node.Content {
		switch {
		case b.used > maxMemory:
			return
		case node.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode:
			b.used += len(child.Value)
		default:
			b.add(child, depth+1)
		}
	}
}
