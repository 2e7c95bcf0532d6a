package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// crd are the fields of a CustomResourceDefinition that the reference shows.
type crd struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
			Schema struct {
				OpenAPIV3Schema schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schema is a part of an OpenAPI schema.
type schema struct {
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Description          string            `json:"description"`
	Enum                 []any             `json:"enum"`
	Default              any               `json:"default"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
	IntOrString          bool              `json:"x-kubernetes-int-or-string"`
	Validations          []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// writeReference writes a page with every field of every kind.
func writeReference(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the CRDs: %w", err)
	}
	var page strings.Builder
	page.WriteString("# API reference\n\n<!-- Written by `make generate` from the CRDs. -->\n\n" +
		"Every field of every kind. `kubectl explain` shows the same text. The fields of `metadata` are those of every object of Kubernetes.\n")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a CRD: %w", err)
		}
		var definition crd
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		writeKind(&page, &definition)
	}
	path := filepath.Join(root, "docs", "reference", "api.md")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the reference: %w", err)
	}
	if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("writing the reference: %w", err)
	}
	return nil
}

func writeKind(page *strings.Builder, definition *crd) {
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		names := definition.Spec.Names
		fmt.Fprintf(page, "\n## %s\n\n`%s/%s`, %s", names.Kind, definition.Spec.Group, version.Name, strings.ToLower(definition.Spec.Scope))
		if len(names.ShortNames) > 0 {
			fmt.Fprintf(page, ", `kubectl get %s`", strings.Join(names.ShortNames, "`, `kubectl get "))
		}
		fmt.Fprintf(page, ". %s\n", cell(version.Schema.OpenAPIV3Schema.Description))
		for _, part := range []string{"spec", "status"} {
			top, found := version.Schema.OpenAPIV3Schema.Properties[part]
			if !found || len(top.Properties) == 0 {
				continue
			}
			fmt.Fprintf(page, "\n### %s %s\n\n| field | type | description |\n|---|---|---|\n", names.Kind, part)
			writeFields(page, &top, "")
		}
	}
}

// writeFields writes a row for each field, followed by those of its own fields.
func writeFields(page *strings.Builder, parent *schema, prefix string) {
	names := make([]string, 0, len(parent.Properties))
	for name := range parent.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		field := parent.Properties[name]
		fmt.Fprintf(page, "| `%s%s` | %s | %s |\n", prefix, name, typeOf(&field), details(&field, slices.Contains(parent.Required, name)))
		switch {
		case field.Type == "array" && field.Items != nil:
			writeFields(page, field.Items, prefix+name+"[].")
		case field.AdditionalProperties != nil:
			writeFields(page, field.AdditionalProperties, prefix+name+".*.")
		default:
			writeFields(page, &field, prefix+name+".")
		}
	}
}

func typeOf(field *schema) string {
	switch {
	case field.IntOrString:
		return "integer or string"
	case field.Type == "array" && field.Items != nil:
		return "list of " + typeOf(field.Items)
	case field.AdditionalProperties != nil:
		return "map of " + typeOf(field.AdditionalProperties)
	case field.Type == "":
		return "any"
	case field.Format == "date-time":
		return "time"
	default:
		return field.Type
	}
}

// details returns the description of a field with what the schema says about it.
func details(field *schema, required bool) string {
	sentences := []string{}
	if text := cell(field.Description); text != "" {
		sentences = append(sentences, text)
	}
	if required {
		sentences = append(sentences, "Required.")
	}
	if len(field.Enum) > 0 {
		values := make([]string, len(field.Enum))
		for i, value := range field.Enum {
			values[i] = fmt.Sprintf("`%v`", value)
		}
		sentences = append(sentences, "One of "+strings.Join(values, ", ")+".")
	}
	if field.Default != nil {
		if text, err := yaml.Marshal(field.Default); err == nil && !strings.Contains(strings.TrimSpace(string(text)), "\n") {
			sentences = append(sentences, "Default: `"+strings.TrimSpace(string(text))+"`.")
		}
	}
	for _, rule := range field.Validations {
		if rule.Message != "" {
			sentences = append(sentences, "Rule: "+cell(rule.Message)+".")
		}
	}
	return strings.Join(sentences, " ")
}

// cell returns a text as a cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "*", `\*`).Replace(text)
}
