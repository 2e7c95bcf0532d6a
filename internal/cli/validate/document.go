package validate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is one object of a file.
type Object struct {
	*unstructured.Unstructured
	// File is the file as it was named.
	File string

	node *yaml3.Node
	// before is how many lines of the file come before the document.
	before int
}

// name is kind and name, as a person says it.
func (o *Object) name() string { return o.GetKind() + " " + o.GetName() }

// with is the object with other content, at the same place.
func (o *Object) with(content *unstructured.Unstructured) *Object {
	other := *o
	other.Unstructured = content
	return &other
}

// finding is a finding at a field of the object.
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

// locate finds where a field stands, or the deepest part of it that does.
func (o *Object) locate(path string) (line, column int) {
	node := o.node
	line, column = node.Line, node.Column
	for path != "" {
		key, value, rest := follow(node, path)
		if key == nil {
			break
		}
		line, column = key.Line, key.Column
		node, path = value, rest
	}
	return line + o.before, column
}

// follow takes one step along a path as field errors write it: names after
// dots, list items and keys in brackets. Names may hold dots themselves.
func follow(node *yaml3.Node, path string) (key, value *yaml3.Node, rest string) {
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

// Parse reads the objects of a file. Documents that are no objects are findings
// if the file was asked for by its name.
func Parse(file string, text []byte, named bool) ([]*Object, []Finding) {
	var objects []*Object
	var findings []Finding
	before := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, findings
		}
		if err != nil {
			return objects, append(findings, Finding{File: file, Severity: Error, Rule: RuleYAML, Message: err.Error()})
		}
		found, wrong := parseDocument(file, document, before, named)
		objects, findings = append(objects, found...), append(findings, wrong...)
		before += bytes.Count(document, []byte("\n"))
		// The reader swallows the line that divides documents.
		before++
	}
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

func parseDocument(file string, document []byte, before int, named bool) ([]*Object, []Finding) {
	var root yaml3.Node
	if err := yaml3.Unmarshal(document, &root); err != nil {
		return nil, []Finding{syntaxFinding(file, before, err)}
	}
	if root.Kind != yaml3.DocumentNode || len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, nil
	}
	node := root.Content[0]
	findings := duplicateKeys(file, before, node, "")
	var content any
	if err := yaml.Unmarshal(document, &content); err != nil {
		return nil, append(findings, syntaxFinding(file, before, err))
	}
	fields, isMap := content.(map[string]any)
	object := &Object{Unstructured: &unstructured.Unstructured{}, File: file, node: node, before: before}
	if !isMap {
		return nil, append(findings, noObject(object, named)...)
	}
	// Numbers are those of the API server.
	if err := utilyaml.Unmarshal(document, &fields); err != nil {
		return nil, append(findings, syntaxFinding(file, before, err))
	}
	object.Object = fields
	switch {
	case object.GetKind() == "List" && object.GetAPIVersion() == "v1":
		return items(object), findings
	case object.GetKind() == "" || object.GetAPIVersion() == "":
		return nil, append(findings, noObject(object, named)...)
	}
	return []*Object{object}, findings
}

// items are the objects of a List.
func items(list *Object) []*Object {
	content, _ := list.Object["items"].([]any)
	var objects []*Object
	for i, item := range content {
		fields, isMap := item.(map[string]any)
		_, nodes, _ := follow(list.node, "items")
		if !isMap || nodes == nil || i >= len(nodes.Content) {
			continue
		}
		objects = append(objects, &Object{
			Unstructured: &unstructured.Unstructured{Object: fields}, File: list.File, node: nodes.Content[i], before: list.before,
		})
	}
	return objects
}

func noObject(o *Object, named bool) []Finding {
	if !named {
		return nil
	}
	line, column := o.locate("")
	return []Finding{{
		File: o.File, Line: line, Column: column, Severity: Error, Rule: RuleNoObject,
		Message: "this is no Kubernetes object: write apiVersion and kind",
	}}
}

func syntaxFinding(file string, before int, err error) Finding {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	line := 0
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		if number, err := strconv.Atoi(match[1]); err == nil {
			line = before + number
		}
		message = yamlLine.ReplaceAllString(message, "")
	}
	return Finding{File: file, Line: line, Severity: Error, Rule: RuleYAML, Message: "this is no YAML: " + message}
}

// duplicateKeys finds keys that stand twice in a mapping, of which the first
// would be lost without a word.
func duplicateKeys(file string, before int, node *yaml3.Node, path string) []Finding {
	var findings []Finding
	switch node.Kind {
	case yaml3.SequenceNode:
		for i, item := range node.Content {
			findings = append(findings, duplicateKeys(file, before, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case yaml3.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			if line, found := first[key.Value]; found && key.Tag != "!!merge" {
				findings = append(findings, Finding{
					File: file, Line: key.Line + before, Column: key.Column, Path: at, Severity: Error, Rule: RuleDuplicateKey,
					Message: fmt.Sprintf("%s stands here twice, first on line %d: remove one of them", key.Value, line+before),
				})
			}
			first[key.Value] = key.Line
			findings = append(findings, duplicateKeys(file, before, node.Content[i+1], at)...)
		}
	}
	return findings
}
