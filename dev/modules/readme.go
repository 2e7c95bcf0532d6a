package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The markers around a table in a README. %s is the name of the table.
const (
	tableBegin = "<!-- BEGIN %s: written by dev/modules -write-readmes -->"
	tableEnd   = "<!-- END %s -->"
)

// writeReadmes updates the tables of the READMEs.
func writeReadmes(out io.Writer, modules []module) error {
	for _, m := range modules {
		path := filepath.Join(m.dir, "README.md")
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && optionalReadme(m) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the README of %s: %w", m.name, err)
		}
		fresh, err := renewed(m, text)
		if err != nil {
			return err
		}
		if bytes.Equal(text, fresh) {
			continue
		}
		if err := os.WriteFile(path, fresh, 0o644); err != nil {
			return fmt.Errorf("writing the README of %s: %w", m.name, err)
		}
		fmt.Fprintln(out, "wrote", path)
	}
	return nil
}

// checkReadme returns an error if the tables of a README are not current.
func checkReadme(m module) error {
	text, err := os.ReadFile(filepath.Join(m.dir, "README.md"))
	if errors.Is(err, os.ErrNotExist) && optionalReadme(m) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the README: %w", err)
	}
	fresh, err := renewed(m, text)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, fresh) {
		return errors.New("the tables of README.md are not current: run 'go run ./modules -write-readmes' in dev")
	}
	return nil
}

// optionalReadme reports whether a module needs no README of its own: the modules of a
// group share one.
func optionalReadme(m module) bool { return strings.Contains(m.name, "/") }

func renewed(m module, text []byte) ([]byte, error) {
	files, err := readTerraform(m.dir)
	if err != nil {
		return nil, err
	}
	found, err := declared(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	for name, table := range map[string]string{"inputs": inputTable(found.inputs), "outputs": outputTable(found.outputs)} {
		if text, err = replaceTable(text, name, table); err != nil {
			return nil, fmt.Errorf("README.md of %s: %w", m.name, err)
		}
	}
	return text, nil
}

func replaceTable(text []byte, name, table string) ([]byte, error) {
	begin, end := fmt.Sprintf(tableBegin, name), fmt.Sprintf(tableEnd, name)
	before, rest, ok := bytes.Cut(text, []byte(begin))
	if !ok {
		return nil, fmt.Errorf("line %q is missing", begin)
	}
	_, after, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return nil, fmt.Errorf("line %q is missing", end)
	}
	return []byte(string(before) + begin + "\n" + table + end + string(after)), nil
}

// inputTable returns the table of inputs, required ones first, followed by the types
// that do not fit into a table.
func inputTable(inputs []input) string {
	var table, types strings.Builder
	table.WriteString("| Name | Description | Type | Default | Required |\n|------|-------------|------|---------|:--------:|\n")
	for _, required := range []bool{true, false} {
		for _, in := range inputs {
			if (in.value == "") != required {
				continue
			}
			value, mark := "", "yes"
			if !required {
				value, mark = "`"+cell(oneLine(in.value))+"`", "no"
			}
			fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s | %s |\n", in.name, cell(in.description), cell(short(in.kind)), value, mark)
			if short(in.kind) != in.kind {
				fmt.Fprintf(&types, "\n`%s`:\n\n```hcl\n%s\n```\n", in.name, unindented(in.kind))
			}
		}
	}
	return table.String() + types.String()
}

func outputTable(outputs []output) string {
	var table strings.Builder
	table.WriteString("| Name | Description |\n|------|-------------|\n")
	for _, out := range outputs {
		fmt.Fprintf(&table, "| `%s` | %s |\n", out.name, cell(out.description))
	}
	return table.String()
}

// cell escapes a text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", "<br>").Replace(strings.TrimSpace(text))
}

// short returns the outline of a type that has several lines, such as map(object).
func short(kind string) string {
	if !strings.Contains(kind, "\n") {
		return kind
	}
	outside, _, _ := strings.Cut(kind, "object(")
	return outside + "object" + strings.Repeat(")", strings.Count(outside, "("))
}

// oneLine joins the lines of an expression.
func oneLine(text string) string {
	var joined strings.Builder
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		switch last := joined.String(); {
		case line == "" || last == "":
		case strings.HasSuffix(last, "{"), strings.HasSuffix(last, "["), strings.HasPrefix(line, "}"), strings.HasPrefix(line, "]"):
			joined.WriteString(" ")
		default:
			joined.WriteString(", ")
		}
		joined.WriteString(strings.TrimSuffix(line, ","))
	}
	return joined.String()
}

// unindented removes the indentation of a type.
func unindented(text string) string { return strings.ReplaceAll(text, "\n  ", "\n") }
