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
	// kind is the source text of the type.
	kind string
	// value is the source text of the default, or empty if there is none.
	value string
}

// output is an output of a module.
type output struct{ name, description string }

// rule is a validation or a precondition.
type rule struct{ where, message string }

// declarations are the declarations in the files of a module.
type declarations struct {
	inputs  []input
	outputs []output
	rules   []rule
}

// declared returns the declarations of a module's files, in the order of file names.
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
			kind: sourceText(block.Body, "type", text), value: sourceText(block.Body, "default", text),
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

// literal returns the value of an attribute that is a string without references.
func literal(body *hclsyntax.Body, name string) (string, error) {
	attribute, ok := body.Attributes[name]
	if !ok {
		return "", fmt.Errorf("%s is missing", name)
	}
	value, diagnostics := attribute.Expr.Value(nil)
	if diagnostics.HasErrors() {
		return "", fmt.Errorf("reading %s: %w", name, diagnostics)
	}
	return strings.TrimSpace(value.AsString()), nil
}

// sourceText returns the source text of an attribute, or "".
func sourceText(body *hclsyntax.Body, name string, text []byte) string {
	attribute, ok := body.Attributes[name]
	if !ok {
		return ""
	}
	return string(attribute.Expr.Range().SliceBytes(text))
}
