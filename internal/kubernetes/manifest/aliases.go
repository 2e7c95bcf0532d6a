package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/appthrust/capt/internal/elements"
)

// maxExpansion is what the aliases of a text may add to its size, in addition to its
// length.
const maxExpansion = 1 << 20

var (
	errAliases = errors.New("the YAML aliases expand to too much text: write the values without aliases")
	errInvalid = errors.New("the YAML is invalid")
)

// maxElements limits the number of elements of a text, including what looks like one in its
// strings.
const maxElements = 100_000

// checkYAML returns an error if YAML documents have too many elements, or if their aliases
// expand to much more than the text. The parsers do not limit this: a few hundred KiB can
// become gigabytes.
func checkYAML(text []byte) error {
	if err := elements.CheckYAML(text, maxElements); err != nil {
		return fmt.Errorf("the YAML is not accepted: %w", err)
	}
	return checkAliases(text)
}

// HasAliases reports whether the first YAML document of a text has aliases, or is invalid. The
// caller has limited the elements of the text.
func HasAliases(text []byte) bool {
	if !hasAliases(text) {
		return false
	}
	var root yaml.Node
	return yaml.Unmarshal(text, &root) != nil || containsAlias(&root)
}

func containsAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, containsAlias)
}

// checkAliases returns an error if the aliases of YAML documents expand to much more than
// the text.
func checkAliases(text []byte) error {
	if !hasAliases(text) {
		return nil
	}
	limit := 2*len(text) + maxExpansion
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errInvalid
		}
		e := expansion{limit: limit, known: map[*yaml.Node]int{}}
		if e.size(&document) > limit {
			return errAliases
		}
	}
}

// expansion computes the size of nodes with their aliases replaced.
type expansion struct {
	limit int
	// known are the sizes of nodes. A node whose size is being computed exceeds the
	// limit: it would contain itself.
	known map[*yaml.Node]int
}

func (e *expansion) size(node *yaml.Node) int {
	if size, found := e.known[node]; found {
		return size
	}
	if node.Kind == yaml.AliasNode {
		return e.size(node.Alias)
	}
	e.known[node] = e.limit + 1
	size := len(node.Value) + 1
	for _, child := range node.Content {
		// The sum cannot overflow: each part is at most limit + 1.
		size = min(size+e.size(child), e.limit+1)
	}
	e.known[node] = size
	return size
}
