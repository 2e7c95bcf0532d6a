// Package manifest reads Kubernetes objects from YAML.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Documents yields the YAML documents of a text, including empty ones. Iteration
// ends at the first error.
func Documents(text []byte) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for number := 1; ; number++ {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Document{Number: number}, fmt.Errorf("reading document %d: %w", number, err))
				return
			}
			if !yield(Document{Number: number, Text: document}, nil) {
				return
			}
		}
	}
}

// Document is one document of a YAML stream.
type Document struct {
	// Number is its position in the stream, counted from 1.
	Number int
	Text   []byte
}

// Parse returns the objects of a YAML stream. A List is replaced by its items.
// Every other object needs apiVersion, kind and metadata.name. Errors do not
// quote the text, which may contain secrets.
func Parse(text []byte) ([]*unstructured.Unstructured, error) { return new(Budget).Parse(text) }

// Parse returns the objects of a text within the budget, as the function Parse does.
func (b *Budget) Parse(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document, err := range Documents(text) {
		if err != nil {
			return nil, err
		}
		if err := b.Check(document.Text); err != nil {
			return nil, fmt.Errorf("document %d: %w", document.Number, err)
		}
		content := map[string]any{}
		if err := yaml.Unmarshal(document.Text, &content); err != nil {
			return nil, fmt.Errorf("document %d is not the YAML of a Kubernetes object%s", document.Number, location(err))
		}
		if len(content) == 0 {
			continue
		}
		items, err := flatten(&unstructured.Unstructured{Object: content})
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", document.Number, err)
		}
		objects = append(objects, items...)
	}
	return objects, nil
}

// syntaxLine matches the line in a syntax error of the YAML parser.
var syntaxLine = regexp.MustCompile(`yaml: (line [0-9]+):`)

// location returns the line of a syntax error inside its document. The rest of
// the error may quote the text.
func location(err error) string {
	if found := syntaxLine.FindStringSubmatch(err.Error()); found != nil {
		return ", see " + found[1]
	}
	return ""
}

// flatten returns the object itself, or the items of a List.
func flatten(obj *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if !obj.IsList() {
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
			return nil, errors.New("apiVersion, kind or metadata.name is missing")
		}
		return []*unstructured.Unstructured{obj}, nil
	}
	var objects []*unstructured.Unstructured
	err := obj.EachListItem(func(item runtime.Object) error {
		one, ok := item.(*unstructured.Unstructured)
		if !ok {
			return errors.New("an item of the List is not an object")
		}
		items, err := flatten(one)
		objects = append(objects, items...)
		return err
	})
	return objects, err
}
