package manifest

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/appthrust/capt/internal/elements"
)

const (
	// maxElements limits the number of elements of a document, including what looks like one in
	// its strings. The parsers have no limit: a few hundred KiB can become hundreds of MiB.
	maxElements = 100_000
	// maxMemory limits what documents need together when they are decoded, or written as YAML
	// again. A MiB of CustomResourceDefinitions, which is more than an object of Kubernetes
	// holds, needs about 8 MiB.
	maxMemory = 10 << 20
	// elementSize is how many bytes a decoded value needs at most, beside its text: in a large
	// map up to 76 for each key.
	elementSize = 80
	// mapSize is how many bytes a map needs as well. One with one key has space for eight.
	mapSize = 352
)

// ErrInvalid reports that a document is not YAML.
var ErrInvalid = errors.New("the YAML is invalid")

// parsing limits how many documents are parsed at the same time: one that is refused may need some
// ten MiB before.
var parsing = make(chan struct{}, 2)

// Budget limits the memory that documents of users need together. The zero value is ready to use.
type Budget struct{ used int }

// Check returns an error if a document must not be decoded: it has too many elements, or the
// documents so far need too much memory, with their aliases replaced.
func (b *Budget) Check(document []byte) error {
	if err := elements.CheckYAML(document, maxElements); err != nil {
		return fmt.Errorf("the YAML is not accepted: %w", err)
	}
	parsing <- struct{}{}
	defer func() { <-parsing }()
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("%w%s", ErrInvalid, location(err))
	}
	b.add(&root, 0)
	return b.exceeded("YAML")
}

// CheckJSON returns an error as Check does, for a document in JSON.
func (b *Budget) CheckJSON(document []byte) error {
	if err := elements.CheckJSON(document, maxElements); err != nil {
		return fmt.Errorf("the JSON is not accepted: %w", err)
	}
	values, objects := elements.Count(document)
	b.used += len(document) + elementSize*values + mapSize*objects
	return b.exceeded("JSON")
}

func (b *Budget) exceeded(format string) error {
	if b.used > maxMemory {
		return fmt.Errorf("the %s would need more than %d MiB of memory: write less, nest it less deeply, or use fewer aliases", format, maxMemory>>20)
	}
	return nil
}

// add estimates what a node needs, with its aliases replaced: as a value, and for the indent of
// its line, which may be much longer than the text. It ends when that is too much, also for a
// node that contains itself.
func (b *Budget) add(node *yaml.Node, depth int) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	b.used += elementSize + 2*depth + len(node.Value)
	if node.Kind == yaml.MappingNode {
		b.used += mapSize
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
