package manifest

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"
)

// HasAliases reports whether the first YAML document of a text has aliases, or is invalid. The
// caller has limited the size of the text.
func HasAliases(text []byte) bool {
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 {
		return false
	}
	var root yaml.Node
	return yaml.Unmarshal(text, &root) != nil || containsAlias(&root)
}

func containsAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, containsAlias)
}
