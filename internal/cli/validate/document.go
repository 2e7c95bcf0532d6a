package validate

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// Object is an object in a file.
type Object struct {
	*unstructured.Unstructured
	// File is the path of the file as the user gave it.
	File string

	node *yaml3.Node
	// offset is the number of lines before the document.
	offset int
}

// name returns kind and name.
func (o *Object) name() string { return o.GetKind() + " " + o.GetName() }

// with returns an object with other content at the same position.
func (o *Object) with(content *unstructured.Unstructured) *Object {
	other := *o
	other.Unstructured = content
	return &other
}

// finding returns a finding about a field of the object.
func (o *Object) finding(severity Severity, rule Rule, path, message string) Finding {
	line, column := o.locate(path)
	return Finding{
		File: o.File, Line: line, Column: column, Object: o.name(), Path: path,
		Severity: severity, Rule: rule, Message: message,
	}
}

func (o *Object) fail(rule Rule, path, format string, args ...any) Finding {
	return o.finding(Error, rule, path, fmt.Sprintf(format, args...))
}

// locate returns the position of a field. If the field does not exist, it is the
// position of the deepest parent that does.
func (o *Object) locate(path string) (line, column int) {
	node := o.node
	line, column = node.Line, node.Column
	for path != "" {
		key, value, rest := descend(node, path)
		if key == nil {
			break
		}
		line, column = key.Line, key.Column
		node, path = value, rest
	}
	return line + o.offset, column
}

// descend returns the child of a node at the first segment of a path, and the rest of
// the path. Paths have the form of field errors: names after dots, indexes and map keys
// in brackets. A name may contain dots.
func descend(node *yaml3.Node, path string) (key, value *yaml3.Node, rest string) {
	for node.Kind == yaml3.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml3.SequenceNode:
		index, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if !found || err != nil || i < 0 || i >= len(node.Content) {
			return nil, nil, ""
		}
		return node.Content[i], node.Content[i], strings.TrimPrefix(rest, ".")
	case yaml3.MappingNode:
		longest := -1
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			for _, written := range []string{name, "[" + name + "]"} {
				after, starts := strings.CutPrefix(path, written)
				if starts && len(written) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
					longest, key, value, rest = len(written), node.Content[i], node.Content[i+1], strings.TrimPrefix(after, ".")
				}
			}
		}
		return key, value, rest
	default:
		return nil, nil, ""
	}
}

// Parse returns the objects of a file. A document that is not an object is a finding if
// the user has named the file, and ignored otherwise.
func Parse(file string, text []byte, named bool) ([]*Object, []Finding) {
	var objects []*Object
	var findings []Finding
	offset := 0
	for document, err := range manifest.Documents(text) {
		if err != nil {
			return objects, append(findings, Finding{File: file, Severity: Error, Rule: RuleYAML, Message: err.Error()})
		}
		found, problems := parseDocument(file, document.Text, offset, named)
		objects, findings = append(objects, found...), append(findings, problems...)
		// The text does not contain the separator line.
		offset += bytes.Count(document.Text, []byte("\n")) + 1
	}
	return objects, findings
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

func parseDocument(file string, document []byte, offset int, named bool) ([]*Object, []Finding) {
	var root yaml3.Node
	if err := yaml3.Unmarshal(document, &root); err != nil {
		return nil, []Finding{syntaxFinding(file, offset, err)}
	}
	if root.Kind != yaml3.DocumentNode || len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, nil
	}
	node := root.Content[0]
	findings := duplicateKeys(file, offset, node, "")
	object := &Object{Unstructured: &unstructured.Unstructured{}, File: file, node: node, offset: offset}
	if node.Kind != yaml3.MappingNode {
		return nil, append(findings, notAnObject(object, named)...)
	}
	// Decodes whole numbers as integers, like the API server.
	if err := utilyaml.Unmarshal(document, &object.Object); err != nil {
		return nil, append(findings, syntaxFinding(file, offset, err))
	}
	switch {
	case object.GetKind() == "List" && object.GetAPIVersion() == "v1":
		return items(object), findings
	case object.GetKind() == "" || object.GetAPIVersion() == "":
		return nil, append(findings, notAnObject(object, named)...)
	}
	return []*Object{object}, findings
}

// items returns the objects of a List.
func items(list *Object) []*Object {
	content, _ := list.Object["items"].([]any)
	var objects []*Object
	for i, item := range content {
		fields, isMap := item.(map[string]any)
		_, nodes, _ := descend(list.node, "items")
		if !isMap || nodes == nil || i >= len(nodes.Content) {
			continue
		}
		objects = append(objects, &Object{
			Unstructured: &unstructured.Unstructured{Object: fields}, File: list.File, node: nodes.Content[i], offset: list.offset,
		})
	}
	return objects
}

func notAnObject(o *Object, named bool) []Finding {
	if !named {
		return nil
	}
	line, column := o.locate("")
	return []Finding{{
		File: o.File, Line: line, Column: column, Severity: Error, Rule: RuleNoObject,
		Message: "not a Kubernetes object: set apiVersion and kind",
	}}
}

func syntaxFinding(file string, offset int, err error) Finding {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	line := 0
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		if number, err := strconv.Atoi(match[1]); err == nil {
			line = offset + number
		}
		message = yamlLine.ReplaceAllString(message, "")
	}
	return Finding{File: file, Line: line, Severity: Error, Rule: RuleYAML, Message: "invalid YAML: " + message}
}

// duplicateKeys reports keys that a mapping has twice. The API server would silently
// ignore the first value.
func duplicateKeys(file string, offset int, node *yaml3.Node, path string) []Finding {
	var findings []Finding
	switch node.Kind {
	case yaml3.SequenceNode:
		for i, item := range node.Content {
			findings = append(findings, duplicateKeys(file, offset, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case yaml3.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			if line, found := first[key.Value]; found && key.Tag != "!!merge" {
				findings = append(findings, Finding{
					File: file, Line: key.Line + offset, Column: key.Column, Path: at, Severity: Error, Rule: RuleDuplicateKey,
					Message: fmt.Sprintf("duplicate key %s, first on line %d: remove one of them", key.Value, line+offset),
				})
			}
			first[key.Value] = key.Line
			findings = append(findings, duplicateKeys(file, offset, node.Content[i+1], at)...)
		}
	}
	return findings
}
