package render

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

const (
	// maxBytes limits the size of all manifests of a cluster: they are stored in one Secret. It
	// limits the strings with placeholders, too, which are a part of them.
	maxBytes = 900 << 10
	// maxSources limits the texts and values that manifests are made of. They may be larger than
	// the manifests: comments and unused outputs are not written.
	maxSources = 2 << 20
	// maxWritten limits the estimated size of an object as YAML. It is more than maxBytes,
	// because the estimate may be too high.
	maxWritten = 2 << 20
	// entrySize is what an entry of a map of texts needs beside its key and text.
	entrySize = 64
)

// Size sums the size of what an add-on is rendered from, so that reading it ends when it is too
// much.
type Size struct {
	addon string
	bytes int
}

// NewSize returns the size of what the add-on itself has.
func NewSize(addon *addonsv1.CAPTAddon) *Size {
	s := &Size{addon: addon.Name}
	for _, source := range addon.Spec.Manifests {
		s.bytes += len(source.Inline)
	}
	if addon.Spec.Helm != nil && addon.Spec.Helm.Values != nil {
		s.bytes += len(addon.Spec.Helm.Values.Raw)
	}
	return s
}

// Add adds an entry of an object.
func (s *Size) Add(key string, length int) { s.bytes += len(key) + length + entrySize }

// Check returns a fault if it is too much with an object, such as "ConfigMap a".
func (s *Size) Check(object string) error {
	if s.bytes <= maxSources {
		return nil
	}
	return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: with %s, it is made of more than %d KiB, the limit: split it into two add-ons with dependsOn, or remove keys that it does not need",
		s.addon, object, maxSources>>10)
}

// budget limits what one rendering needs.
type budget struct {
	addon string
	// memory is that of documents and decoded values.
	memory manifest.Budget
	// expanded is the size of strings with placeholders so far.
	expanded int
}

// expandedError reports strings that are too long with the values of their placeholders.
type expandedError struct {
	name string
	size int
}

func (e *expandedError) Error() string {
	return fmt.Sprintf("with ${%s}, which has %d KiB, its strings have more than %d KiB, the limit: use shorter outputs, or use them less often",
		e.name, (e.size+1<<10-1)>>10, maxBytes>>10)
}

// expand resolves the placeholders of a string.
func (b *budget) expand(text string, values map[string]string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	expanded, err := placeholder.ExpandUpTo(text, maxBytes-b.expanded, lookup(values))
	if tooLong, found := errors.AsType[*placeholder.TooLongError](err); found {
		return "", &expandedError{name: tooLong.Name, size: len(values[tooLong.Name])}
	}
	b.expanded += len(expanded)
	return expanded, err
}

// checkWritten returns an error if an object must not be written as YAML.
func (b *budget) checkWritten(obj *unstructured.Unstructured) error {
	if written(obj.Object, 0, maxWritten) <= maxWritten {
		return nil
	}
	return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: %s %s has more than %d KiB as YAML, and a Secret holds at most %d KiB: write less, or nest it less deeply",
		b.addon, obj.GetKind(), obj.GetName(), maxWritten>>10, maxBytes>>10)
}

const (
	// indent is that of nested YAML, and lineWidth the width after which a line ends at the next
	// space.
	indent    = 2
	lineWidth = 80
	// marks is what a value needs beside its text: a colon or a dash, quotes and the end of its line.
	marks = 4
)

// breaks are the line breaks of YAML.
var breaks = []string{"\n", "\r", "\u0085", "\u2028", "\u2029"}

// written estimates the size of a value as YAML, in which each line begins with an indent: a deep
// value has many times the size of its text. It ends when that exceeds the limit.
func written(value any, depth, limit int) int {
	size := 0
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if size > limit {
				break
			}
			child := depth + 1
			if _, isList := item.([]any); isList {
				// The items of a list in a map begin where its key does.
				child = depth
			}
			size += indent*depth + marks + writtenText(key, indent*depth) + written(item, child, limit-size)
		}
	case []any:
		for _, item := range value {
			if size > limit {
				break
			}
			size += max(written(item, depth+1, limit-size), indent*depth+marks)
		}
	case string:
		size = writtenText(value, indent*depth)
	default:
		size = marks
	}
	return size
}

// writtenText estimates the size of a text whose lines, except for the first one, begin with an
// indent.
func writtenText(text string, indent int) int {
	lines := 0
	for _, separator := range breaks {
		lines += strings.Count(text, separator)
	}
	// A line has at least one word.
	lines += min(strings.Count(text, " "), len(text)/max(lineWidth-indent, 1))
	return len(text) + lines*indent
}

// checkReadable returns a fault if a text that was written cannot be read again, to
// apply it and to remove its objects. Values of placeholders may have more elements than
// manifests may.
func (b *budget) checkReadable(key string, text []byte) error {
	readable := &manifest.Budget{}
	for document, err := range manifest.Documents(text) {
		if err == nil {
			err = readable.Check(document.Text)
		}
		if err != nil {
			return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: %s cannot be read again with the values of its placeholders: %v. Use shorter outputs", b.addon, key, err)
		}
	}
	return nil
}
