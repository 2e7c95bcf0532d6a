package inspect

import (
	"cmp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var (
	fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
		{Type: "terraform"},
	}}
	variableSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "type"}, {Name: "default"}, {Name: "description"}, {Name: "sensitive"}, {Name: "nullable"},
	}}
	outputSchema    = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "description"}, {Name: "sensitive"}}}
	terraformSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "required_providers"}}}
)

// read reads the declarations of a file. Those of an override file change existing
// declarations.
func (m *Module) read(parser *hclparse.Parser, name string, content []byte, override bool) {
	if m.tokens += count(name, content); m.tokens > maxTokens {
		m.diagnose(tooLarge(name))
		return
	}
	if isTooDeep(name, content) {
		m.diagnose(tooComplex(name))
		return
	}
	file, diagnostics := parse(parser, name, content)
	m.diagnose(diagnostics)
	if file == nil || file.Body == nil {
		return
	}
	found, _, diagnostics := file.Body.PartialContent(fileSchema)
	// An invalid file is reported only once.
	if !m.Diagnostics.HasErrors() {
		m.diagnose(diagnostics)
	}
	for _, block := range found.Blocks {
		switch block.Type {
		case "variable":
			m.readVariable(block, override)
		case "output":
			m.readOutput(block, override)
		case "terraform":
			m.readProviders(block)
		}
	}
}

func (m *Module) readVariable(block *hcl.Block, override bool) {
	name := block.Labels[0]
	variable, known := m.Variables[name]
	if known && !override {
		m.diagnose(failure(block.DefRange, "Duplicate variable declaration", "A variable named %q was already declared at %s:%d.", name, variable.File, variable.Line))
		return
	}
	if !known {
		variable = &Variable{
			Name: name, Type: cty.DynamicPseudoType, TypeOmitted: true, Required: true, Nullable: true,
			File: block.DefRange.Filename, Line: block.DefRange.Start.Line,
		}
		m.Variables[name] = variable
	}
	content, _, diagnostics := block.Body.PartialContent(variableSchema)
	m.diagnose(diagnostics)
	if attribute, ok := content.Attributes["type"]; ok {
		m.diagnose(variable.readType(attribute.Expr))
	}
	m.readString(content.Attributes["description"], &variable.Description)
	m.readBool(content.Attributes["sensitive"], &variable.Sensitive)
	m.readBool(content.Attributes["nullable"], &variable.Nullable)
	if attribute, ok := content.Attributes["default"]; ok {
		m.diagnose(variable.readDefault(attribute))
	}
}

// readType reads a type constraint in the current syntax or in that of Terraform
// 0.11.
func (v *Variable) readType(expr hcl.Expression) hcl.Diagnostics {
	v.TypeOmitted = false
	expr, ok := typeExpression(expr)
	if !ok {
		return tooComplex(expr.Range().Filename)
	}
	keyword := hcl.ExprAsKeyword(expr)
	if literal, ok := expr.(*hclsyntax.TemplateExpr); ok && literal.IsStringLiteral() {
		value, _ := literal.Value(nil)
		keyword = value.AsString()
	}
	switch keyword {
	case "list":
		v.Type = cty.List(cty.DynamicPseudoType)
		return nil
	case "map":
		v.Type = cty.Map(cty.DynamicPseudoType)
		return nil
	case "string":
		v.Type = cty.String
		return nil
	}
	var diagnostics hcl.Diagnostics
	v.Type, diagnostics = typeexpr.TypeConstraint(expr)
	return diagnostics
}

// typeExpression returns the expression of a type in the native syntax, without the defaults of
// attributes, which the tool applies. In JSON, it is a string, which HCL would parse without a
// limit. It returns false if the string is nested too deeply.
func typeExpression(expr hcl.Expression) (hcl.Expression, bool) {
	native, ok := expr.(hclsyntax.Expression)
	if !ok {
		text, at := []byte(Constant(expr)), expr.Range()
		tokens, _ := hclsyntax.LexExpression(text, at.Filename, at.Start)
		if areTooDeep(tokens) {
			return expr, false
		}
		parsed, diagnostics := hclsyntax.ParseExpression(text, at.Filename, at.Start)
		if diagnostics.HasErrors() {
			return expr, true
		}
		native = parsed
	}
	_ = hclsyntax.VisitAll(native, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, isCall := node.(*hclsyntax.FunctionCallExpr); isCall && call.Name == "optional" && len(call.Args) == 2 {
			call.Args = call.Args[:1]
		}
		return nil
	})
	return native, true
}

// readDefault reads a default that is a literal. The tool evaluates others.
func (v *Variable) readDefault(attribute *hcl.Attribute) hcl.Diagnostics {
	v.Required = false
	if !isLiteral(attribute.Expr) {
		v.Default = cty.NilVal
		return nil
	}
	value, diagnostics := attribute.Expr.Value(nil)
	if diagnostics.HasErrors() {
		return diagnostics
	}
	checked := withoutHugeNumbers(value)
	converted, err := convert.Convert(checked, v.Type)
	if err != nil {
		return failure(attribute.Expr.Range(), "Invalid default value for variable", "This default value is not compatible with the variable's type constraint: %s.", err)
	}
	v.Default = value
	if v.Type.IsPrimitiveType() && checked.RawEquals(value) {
		v.Default = converted
	}
	return nil
}

func (m *Module) readOutput(block *hcl.Block, override bool) {
	name := block.Labels[0]
	output, known := m.Outputs[name]
	if known && !override {
		m.diagnose(failure(block.DefRange, "Duplicate output definition", "An output named %q was already defined at %s:%d.", name, output.File, output.Line))
		return
	}
	if !known {
		output = &Output{Name: name, File: block.DefRange.Filename, Line: block.DefRange.Start.Line}
		m.Outputs[name] = output
	}
	content, _, diagnostics := block.Body.PartialContent(outputSchema)
	m.diagnose(diagnostics)
	m.readString(content.Attributes["description"], &output.Description)
	m.readBool(content.Attributes["sensitive"], &output.Sensitive)
}

func (m *Module) readProviders(block *hcl.Block) {
	content, _, diagnostics := block.Body.PartialContent(terraformSchema)
	m.diagnose(diagnostics)
	for _, required := range content.Blocks {
		attributes, diagnostics := required.Body.JustAttributes()
		m.diagnose(diagnostics)
		for name, attribute := range attributes {
			m.Providers[name] = readProvider(attribute.Expr)
		}
	}
}

// readProvider reads a provider requirement: an object, or only the version in the old
// syntax. It ignores values that are not constants.
func readProvider(expr hcl.Expression) Provider {
	pairs, diagnostics := hcl.ExprMap(expr)
	if diagnostics.HasErrors() {
		return Provider{Version: Constant(expr)}
	}
	var provider Provider
	for _, pair := range pairs {
		switch cmp.Or(hcl.ExprAsKeyword(pair.Key), Constant(pair.Key)) {
		case "source":
			provider.Source = Constant(pair.Value)
		case "version":
			provider.Version = Constant(pair.Value)
		case "configuration_aliases":
			provider.Aliases = true
		}
	}
	return provider
}

// Constant returns the value of an expression that is a constant string, or an empty
// string.
func Constant(expr hcl.Expression) string {
	value, diagnostics := evaluate(expr, nil)
	if diagnostics.HasErrors() || value.IsNull() || value.Type() != cty.String {
		return ""
	}
	return value.AsString()
}

func (m *Module) readString(attribute *hcl.Attribute, into *string) {
	if attribute != nil {
		*into = Constant(attribute.Expr)
	}
}

// readBool does not change into if the value is not a constant, because OpenTofu allows
// some expressions.
func (m *Module) readBool(attribute *hcl.Attribute, into *bool) {
	if attribute == nil {
		return
	}
	value, diagnostics := evaluate(attribute.Expr, nil)
	if diagnostics.HasErrors() {
		return
	}
	if value, err := convert.Convert(value, cty.Bool); err == nil && !value.IsNull() {
		*into = value.True()
	}
}
