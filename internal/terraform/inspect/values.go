package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform"
)

// Values are values for a module's variables.
type Values map[string]cty.Value

// FromJSON decodes values from JSON. It decodes none if they have too many elements.
func FromJSON(encoded map[string]json.RawMessage) (Values, []Problem) {
	values := Values{}
	var problems []Problem
	total := 0
	for _, name := range slices.Sorted(maps.Keys(encoded)) {
		if total += elements.JSON(encoded[name]); total > MaxElements {
			return Values{}, []Problem{problem(KindEncoding, name, "the value of variable %q, or the values of all variables together, have more than %d elements, the limit", name, MaxElements)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(encoded)) {
		text := encoded[name]
		if !utf8.Valid(text) {
			problems = append(problems, problem(KindEncoding, name, "the value of variable %q is not valid UTF-8", name))
			continue
		}
		value, err := decodeJSON(text)
		if err != nil {
			problems = append(problems, problem(KindEncoding, name, "the value of variable %q is not valid JSON", name))
			continue
		}
		values[name] = value
	}
	return values, problems
}

func decodeJSON(text []byte) (cty.Value, error) {
	if isTooDeepData(text) {
		return cty.NilVal, errors.New("it is nested too deeply")
	}
	if err := elements.CheckJSON(text, MaxElements+1); err != nil {
		return cty.NilVal, err
	}
	implied, err := ctyjson.ImpliedType(text)
	if err != nil {
		return cty.NilVal, err
	}
	return ctyjson.Unmarshal(text, implied)
}

// maxInserted limits the values that replace the placeholders of the variables files of a
// workspace, in bytes.
const maxInserted = 1 << 20

// VarFiles parses the variables files of a workspace.
type VarFiles struct {
	// left is what is left of maxInserted.
	left int
}

// NewVarFiles returns a parser for the files of one workspace.
func NewVarFiles() *VarFiles { return &VarFiles{maxInserted} }

// insert counts the values of the placeholders of an expression. It returns an error if they are
// too long.
func (f *VarFiles) insert(expr hcl.Expression, scope *hcl.EvalContext) hcl.Diagnostics {
	for _, placeholder := range expr.Variables() {
		value, found := scope.Variables[placeholder.RootName()]
		if !found {
			continue
		}
		if f.left -= len(value.AsString()); f.left < 0 {
			return failure(placeholder.SourceRange(), "Too large",
				"The values of the placeholders of all variables files have more than %d bytes, the limit: shorten the value of ${%s}, or use it less often.", maxInserted, placeholder.RootName())
		}
	}
	return nil
}

// Parse parses a variables file. It may contain only literals and the given
// placeholders, as ${name} in a string. Diagnostics contain the file and the line but
// never a value.
func (f *VarFiles) Parse(name string, content []byte, format terraform.Format, placeholders map[string]string) (Values, terraform.Diagnostics) {
	attributes, diagnostics := parseVarFile(name, content, format)
	if diagnostics.HasErrors() {
		return nil, convertDiagnostics(diagnostics)
	}
	var scope *hcl.EvalContext
	if placeholders != nil {
		scope = &hcl.EvalContext{Variables: map[string]cty.Value{}}
		for name, value := range placeholders {
			scope.Variables[name] = cty.StringVal(value)
		}
	}
	if format == terraform.FormatJSON && scope != nil && !areLiteral(templatesOf(content)) {
		return nil, convertDiagnostics(notLiteral(hcl.Range{Filename: name}))
	}
	values := Values{}
	for _, variable := range slices.Sorted(maps.Keys(attributes)) {
		expr := attributes[variable].Expr
		if scope != nil {
			if more := f.insert(expr, scope); more.HasErrors() {
				return nil, convertDiagnostics(more)
			}
		}
		value, more := evaluate(expr, scope)
		diagnostics = append(diagnostics, more...)
		if !more.HasErrors() {
			values[variable] = value
		}
	}
	return values, convertDiagnostics(diagnostics)
}

// parseVarFile returns the variables that a variables file sets.
func parseVarFile(name string, content []byte, format terraform.Format) (hcl.Attributes, hcl.Diagnostics) {
	if !utf8.Valid(content) {
		return nil, failure(hcl.Range{Filename: name}, "Invalid variables file", "The file is not valid UTF-8.")
	}
	syntax := name
	if format == terraform.FormatJSON {
		syntax += ".json"
	}
	if diagnostics := Complexity(syntax, content); diagnostics.HasErrors() {
		return nil, diagnostics
	}
	var file *hcl.File
	var diagnostics hcl.Diagnostics
	if format == terraform.FormatJSON {
		file, diagnostics = hcljson.Parse(content, name)
	} else {
		file, diagnostics = hclsyntax.ParseConfig(content, name, hcl.InitialPos)
	}
	if diagnostics.HasErrors() {
		return nil, diagnostics
	}
	return file.Body.JustAttributes()
}

// parseText parses a string that contains a list, map or object: JSON, or a constant
// in the native syntax.
func parseText(text string) (cty.Value, bool) {
	if value, err := decodeJSON(bytes.TrimSpace([]byte(text))); err == nil {
		return value, true
	}
	if countHCL([]byte(text)) > MaxElements || isTooDeep("value", []byte(text)) {
		return cty.NilVal, false
	}
	expr, diagnostics := hclsyntax.ParseExpression([]byte(text), "value", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return cty.NilVal, false
	}
	value, diagnostics := evaluate(expr, nil)
	return value, !diagnostics.HasErrors()
}

// looksComplex reports whether a string should be parsed as a list, map or object
// although the variable also accepts a string.
func looksComplex(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") ||
		strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")
}

// ToJSON encodes values as JSON. It is the inverse of FromJSON.
func ToJSON(values Values) (map[string]json.RawMessage, error) {
	encoded := map[string]json.RawMessage{}
	for name, value := range values {
		text, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			return nil, fmt.Errorf("encoding variable %s: %w", name, err)
		}
		encoded[name] = text
	}
	return encoded, nil
}

// EncodeRequest checks the values of a request against its module, and returns the content of
// the variables file for the tool, or nil if there are no values. It adds the sensitive variables
// of the module to those of the request that are masked.
func EncodeRequest(module *Module, request *terraform.Request) ([]byte, []Problem, error) {
	values, problems := FromJSON(request.Variables)
	for _, name := range request.Fillers {
		if _, declared := module.Variables[name]; !declared {
			delete(values, name)
		}
	}
	if problems = append(problems, Check(module, values, request.Outputs)...); len(problems) > 0 {
		return nil, problems, nil
	}
	for name, variable := range module.Variables {
		if variable.Sensitive && !slices.Contains(request.SecretVariables, name) {
			request.SecretVariables = append(request.SecretVariables, name)
		}
	}
	if len(values) == 0 {
		return nil, nil, nil
	}
	for name, value := range values {
		// Check has found no problem.
		values[name], _ = module.Variables[name].convert(value)
	}
	encoded, err := ToJSON(values)
	if err != nil {
		return nil, nil, err
	}
	// The tool quotes a line of the file in its diagnostics, which must have no other variables.
	file, err := json.MarshalIndent(encoded, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("encoding variables: %w", err)
	}
	return file, nil, nil
}
