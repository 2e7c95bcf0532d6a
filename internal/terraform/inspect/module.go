// Package inspect reads what a module declares, without running anything, and
// checks and encodes the values meant for it.
package inspect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

// Module is what a root module declares.
type Module struct {
	Variables map[string]*Variable
	Outputs   map[string]*Output
	// Providers are the required providers by their local names.
	Providers map[string]Provider
	// Provided are the variables that the module's own variable files set.
	Provided map[string]bool
	// Diagnostics say what is wrong with the module. When there are errors the
	// rest may be incomplete.
	Diagnostics terraform.Diagnostics
}

// Variable is an input of a module.
type Variable struct {
	Name        string
	Description string
	// Type is cty.DynamicPseudoType when TypeOmitted is set, or for any.
	Type        cty.Type
	TypeOmitted bool
	// Defaults are those of optional attributes within Type; nil without any.
	Defaults *typeexpr.Defaults
	// Default is cty.NilVal when the variable has none.
	Default   cty.Value
	Required  bool
	Sensitive bool
	// Nullable is false when null stands for the default.
	Nullable bool
	File     string
	Line     int
}

// Output is an output of a module.
type Output struct {
	Name        string
	Description string
	Sensitive   bool
	File        string
	Line        int
}

// Provider is a provider that a module requires.
type Provider struct {
	Source  string
	Version string
}

// Dir reads the module in a directory. The error is about reading; what is
// wrong with the module is in its diagnostics.
func Dir(dir string) (*Module, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading module: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !isConfig(name) && !terraform.IsAutoVars(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading module: %w", err)
		}
		files[name] = content
	}
	return Files(files), nil
}

// Inline reads a module given as text.
func Inline(content string, format terraform.Format) *Module {
	name := "main.tf"
	if format == terraform.FormatJSON {
		name = "main.tf.json"
	}
	return Files(map[string][]byte{name: []byte(content)})
}

// Files reads a module given as the files of its directory. Files that the
// tool does not read as configuration or variables are ignored.
func Files(files map[string][]byte) *Module {
	module := &Module{
		Variables: map[string]*Variable{},
		Outputs:   map[string]*Output{},
		Providers: map[string]Provider{},
		Provided:  map[string]bool{},
	}
	primary, overrides := configNames(files)
	parser := hclparse.NewParser()
	for _, name := range primary {
		module.read(parser, name, files[name], false)
	}
	for _, name := range overrides {
		module.read(parser, name, files[name], true)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if terraform.IsAutoVars(name) {
			format := terraform.FormatHCL
			if strings.HasSuffix(name, ".json") {
				format = terraform.FormatJSON
			}
			values, diagnostics := ParseVarFile(name, files[name], format, nil)
			module.Diagnostics = append(module.Diagnostics, diagnostics...)
			for variable := range values {
				module.Provided[variable] = true
			}
		}
	}
	return module
}

// configNames returns the configuration files in the order in which the tool
// reads them: a .tofu file stands in for the .tf file of the same name, and
// override files come last.
func configNames(files map[string][]byte) (primary, overrides []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !isConfig(name) {
			continue
		}
		if base, isTerraform := strings.CutSuffix(name, ".tf"); isTerraform && has(files, base+".tofu") {
			continue
		}
		if base, isTerraform := strings.CutSuffix(name, ".tf.json"); isTerraform && has(files, base+".tofu.json") {
			continue
		}
		base, _, _ := strings.Cut(name, ".")
		if base == "override" || strings.HasSuffix(base, "_override") {
			overrides = append(overrides, name)
		} else {
			primary = append(primary, name)
		}
	}
	return primary, overrides
}

func has(files map[string][]byte, name string) bool {
	_, ok := files[name]
	return ok
}

// isConfig reports whether the tool reads the file as configuration.
func isConfig(name string) bool {
	if strings.Contains(name, "/") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return false
	}
	for _, suffix := range []string{".tf", ".tofu", ".tf.json", ".tofu.json"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func (m *Module) diagnose(diagnostics hcl.Diagnostics) {
	m.Diagnostics = append(m.Diagnostics, translate(diagnostics)...)
}

// translate renders HCL's diagnostics as the engine's.
func translate(diagnostics hcl.Diagnostics) terraform.Diagnostics {
	var translated terraform.Diagnostics
	for _, d := range diagnostics {
		one := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			one.Severity = terraform.SeverityWarning
		}
		if d.Subject != nil {
			one.File, one.Line, one.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		}
		translated = append(translated, one)
	}
	return translated
}
