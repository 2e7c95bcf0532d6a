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
	// maxSmall is how many elements a text has that needs little, however they are nested, and
	// maxSmallText how many bytes.
	maxSmall     = 2_000
	maxSmallText = 64 << 10
)

// decodings limits how many large texts are decoded at the same time. A decoder needs several
// times the memory of the decoded objects.
var decodings = make(chan struct{}, 1)

// Budget limits the memory that the documents of one text need.
type Budget struct {
	isSmall bool
	used    int
}

// Begin returns the budget of a text. It waits until no other large text is decoded. The caller
// calls End after it has decoded the text.
func Begin(text []byte) *Budget {
	b := &Budget{isSmall: isSmall(text)}
	if !b.isSmall {
		decodings <- struct{}{}
	}
	return b
}

// End lets others decode large texts.
func (b *Budget) End() {
	if !b.isSmall {
		<-decodings
	}
}

// Check returns an error if a document of the text must not be decoded: CheckYAML refuses it, or
// the documents so far need too much memory.
func (b *Budget) Check(document []byte) error {
	if err := CheckYAML(document); err != nil || b.isSmall {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("%w%s", errInvalid, location(err))
	}
	if b.add(&root, 0); b.used > maxMemory {
		return fmt.Errorf("the YAML would need more than %d MiB of memory: write less, or nest it less deeply", maxMemory>>20)
	}
	return nil
}

// isSmall reports whether a text needs little memory when it is decoded.
func isSmall(text []byte) bool {
	return len(text) <= maxSmallText && elements.CheckYAML(text, maxSmall) == nil && !hasAliases(text)
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
