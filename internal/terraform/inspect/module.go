// Package inspect reads the declarations of a module without running OpenTofu or
// Terraform (the tool), and checks and encodes values for its variables.
package inspect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

// Module contains the declarations of a root module.
type Module struct {
	Variables map[string]*Variable
	Outputs   map[string]*Output
	// Providers are the required providers by their local names.
	Providers map[string]Provider
	// Provided are the variables that the module's variable files set.
	Provided map[string]bool
	// Diagnostics are the errors and warnings of the module. If it has errors, the
	// other fields may be incomplete.
	Diagnostics terraform.Diagnostics

	// tokens is the number of tokens of its files.
	tokens int
}

// Variable is an input of a module.
type Variable struct {
	Name        string
	Description string
	// Type is cty.DynamicPseudoType if TypeOmitted is set or if the type is any.
	Type        cty.Type
	TypeOmitted bool
	// Default is the default, without those of optional attributes within Type. It is
	// cty.NilVal if the variable has none, or if it is not a literal.
	Default   cty.Value
	Required  bool
	Sensitive bool
	// Nullable is false if null means the default.
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
	// Aliases is set if the module gets further configurations of the provider from the
	// module that calls it.
	Aliases bool
}

// Dir reads the module in a directory. It returns an error only if a file cannot be
// read. Errors of the module are in its diagnostics.
func Dir(dir string) (*Module, error) {
	files, err := ReadDir(dir)
	if err != nil {
		return nil, err
	}
	return Files(files), nil
}

// maxFiles limits the files of a module.
const maxFiles = 1000

// ReadDir reads the files of a module in a directory. It returns an error if there are too many, or
// one of which reading may never end: code of the module may have created it.
func ReadDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading module: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(dir, entry.Name())
		if entry.IsDir() || !terraform.IsConfig(name) && !terraform.IsAutoVars(name) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading module: %w", err)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("reading module: %s is not a regular file", name)
		}
		if files[name], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading module: %w", err)
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("reading module: it has more than %d files of Terraform", maxFiles)
		}
	}
	return files, nil
}

// Inline reads a module from its text.
func Inline(module terraform.Module) *Module {
	name := "main.tf"
	if module.Format == terraform.FormatJSON {
		name = "main.tf.json"
	}
	root := map[string][]byte{name: []byte(module.Content)}
	for path, content := range module.Files {
		if !strings.Contains(path, "/") {
			root[path] = []byte(content)
		}
	}
	return Files(root)
}

// Files reads a module from the files of its directory. It ignores files that the
// tool does not load as configuration or variables.
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
			attributes, diagnostics := parseVarFile(name, files[name], format)
			module.diagnose(diagnostics)
			for variable := range attributes {
				module.Provided[variable] = true
			}
		}
	}
	return module
}

// configNames returns the configuration files in the order in which the tool loads
// them. A .tofu file replaces the .tf file of the same name, and override files are
// last.
func configNames(files map[string][]byte) (primary, overrides []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(name, "/") || !terraform.IsConfig(name) {
			continue
		}
		if base, isTerraform := strings.CutSuffix(name, ".tf"); isTerraform && has(files, base+".tofu") {
			continue
		}
		if base, isTerraform := strings.CutSuffix(name, ".tf.json"); isTerraform && has(files, base+".tofu.json") {
			continue
		}
		if terraform.IsOverride(name) {
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

func (m *Module) diagnose(diagnostics hcl.Diagnostics) {
	m.Diagnostics = append(m.Diagnostics, convertDiagnostics(diagnostics)...)
}

// convertDiagnostics converts the diagnostics of HCL.
func convertDiagnostics(diagnostics hcl.Diagnostics) terraform.Diagnostics {
	var converted terraform.Diagnostics
	for _, d := range diagnostics {
		diagnostic := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			diagnostic.Severity = terraform.SeverityWarning
		}
		if d.Subject != nil {
			diagnostic.File, diagnostic.Line, diagnostic.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		}
		converted = append(converted, diagnostic)
	}
	return converted
}

// Parse parses a configuration file, in the syntax of its name. It returns what can be read
// of an invalid file, and nil if there is nothing. TooDeep is set if the file is nested too
// deeply, or too large, to be parsed.
func Parse(name string, content []byte) (body hcl.Body, tooDeep bool) {
	if Complexity(name, content).HasErrors() {
		return nil, true
	}
	file, _ := parse(hclparse.NewParser(), name, content)
	if file == nil {
		return nil, false
	}
	return file.Body, false
}

// parse parses a configuration file in the syntax of its name.
func parse(parser *hclparse.Parser, name string, content []byte) (*hcl.File, hcl.Diagnostics) {
	if strings.HasSuffix(name, ".json") {
		return parser.ParseJSON(content, name)
	}
	return parser.ParseHCL(content, name)
}
