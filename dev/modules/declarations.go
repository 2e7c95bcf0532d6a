package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// input is a variable of a module.
type input struct {
	name, description string
	// kind is the type, as it is written.
	kind string
	// value is the default, as it is written; empty where there is none.
	value string
}

// output is an output of a module.
type output struct{ name, description string }

// rule is a validation or a precondition.
type rule struct{ where, message string }

// declarations is what the files of a module declare.
type declarations struct {
	inputs  []input
	outputs []output
	rules   []rule
}

// declared reads the files of a module, in the order of their names.
func declared(files map[string][]byte) (declarations, error) {
	var found declarations
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body, err := parse(files[name], name)
		if err != nil {
			return declarations{}, err
		}
		for _, block := range body.Blocks {
			if err := found.add(block, files[name]); err != nil {
				return declarations{}, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return found, nil
}

func parse(text []byte, name string) (*hclsyntax.Body, error) {
	file, diagnostics := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil, fmt.Errorf("parsing %s: %w", name, diagnostics)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, fmt.Errorf("parsing %s: not the native syntax", name)
	}
	return body, nil
}

func (d *declarations) add(block *hclsyntax.Block, text []byte) error {
	where := strings.Join(append([]string{block.Type}, block.Labels...), " ")
	switch block.Type {
	case "variable":
		description, err := literal(block.Body, "description")
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		d.inputs = append(d.inputs, input{
			name: block.Labels[0], description: description,
			kind: written(block.Body, "type", text), value: written(block.Body, "default", text),
		})
	case "output":
		description, err := literal(block.Body, "description")
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		d.outputs = append(d.outputs, output{block.Labels[0], description})
	}
	return d.addRules(block.Body, where)
}

// addRules collects validations and preconditions at any depth.
func (d *declarations) addRules(body *hclsyntax.Body, where string) error {
	for _, block := range body.Blocks {
		if block.Type != "validation" && block.Type != "precondition" {
			if err := d.addRules(block.Body, where); err != nil {
				return err
			}
			continue
		}
		message, err := literal(block.Body, "error_message")
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		d.rules = append(d.rules, rule{where, message})
	}
	return nil
}

// literal returns the value of an attribute that is a text without references.
func literal(body *hclsyntax.Body, name string) (string, error) {
	attribute, ok := body.Attributes[name]
	if !ok {
		return "", fmt.Errorf("there is no %s", name)
	}
	value, diagnostics := attribute.Expr.Value(nil)
	if diagnostics.HasErrors() {
		return "", fmt.Errorf("reading %s: %w", name, diagnostics)
	}
	return strings.TrimSpace(value.AsString()), nil
}

// written returns an attribute as it stands in the file, or "".
func written(body *hclsyntax.Body, name string, text []byte) string {
	attribute, ok := body.Attributes[name]
	if !ok {
		return ""
	}
	return string(attribute.Expr.Range().SliceBytes(text))
}
