package render

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

const (
	// maxBytes limits the size of all manifests of a cluster: they are stored in one Secret. It
	// limits the strings with placeholders, too, which are a part of them.
	maxBytes = 900 << 10
	// MaxSources limits the ConfigMaps and Secrets that manifests are made of. They may be larger
	// than the manifests: comments and unused keys are not written.
	MaxSources = 2 << 20
)

// budget limits what one rendering needs.
type budget struct {
	// memory is that of documents and decoded values.
	memory manifest.Budget
	// expanded is the size of strings with placeholders so far, and written that of manifests.
	expanded, written int
}

// expand resolves the placeholders of a string.
func (b *budget) expand(text string, values map[string]string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	expanded, err := placeholder.ExpandUpTo(text, maxBytes-b.expanded, lookup(values))
	b.expanded += len(expanded)
	return expanded, err
}

var errTooLarge = errors.New("the manifests are too large")

// limitedText is a text that is part of what a budget limits. Writing it ends at the limit: with
// its indents, a deep value may have many times the size of its content.
type limitedText struct {
	bytes.Buffer
	*budget
	// readable is the budget with which the text is read again.
	readable manifest.Budget
}

// Write implements io.Writer.
func (t *limitedText) Write(p []byte) (int, error) {
	if t.written += len(p); t.written > maxBytes {
		return 0, errTooLarge
	}
	return t.Buffer.Write(p)
}

// add appends an object as a YAML document. Its error is errTooLarge, or says why the document
// cannot be read again, to apply it and to remove it: values of placeholders may have more elements
// than manifests may.
func (t *limitedText) add(obj *unstructured.Unstructured) error {
	start := t.Len()
	t.WriteString("---\n")
	err := yaml.NewEncoder(t).Encode(obj.Object)
	switch {
	case t.written > maxBytes:
		// The encoder does not wrap the error.
		return errTooLarge
	case err != nil:
		return err
	}
	return t.readable.Check(t.Bytes()[start:])
}
