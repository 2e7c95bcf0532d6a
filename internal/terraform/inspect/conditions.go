package inspect

import (
	"fmt"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// maxModuleDepth limits how deep called modules are followed.
const maxModuleDepth = 8

var (
	bodySchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "locals"},
		{Type: "resource", LabelNames: []string{"type", "name"}},
		{Type: "data", LabelNames: []string{"type", "name"}},
		{Type: "output", LabelNames: []string{"name"}},
		{Type: "module", LabelNames: []string{"name"}},
	}}
	validationSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "validation"}}}
	outputConditions = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "precondition"}}}
	resourceSchema   = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "count"}, {Name: "for_each"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "lifecycle"}},
	}
	callSchema      = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "source"}, {Name: "count"}, {Name: "for_each"}}}
	conditionSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "condition"}, {Name: "error_message"}}}
)

// CheckConditions evaluates the validations and preconditions of an inline module, and
// of the modules in its files that it calls, as far as they depend only on variables.
// Values of variables in unknown are not known, or all that are not given if
// unknownDefaults is set. Conditions that depend on anything else are left to the tool.
func CheckConditions(module terraform.Module, values Values, unknown map[string]bool, unknownDefaults bool) []Problem {
	c := &conditions{module: module, seen: map[string]bool{}, budget: newBudget()}
	root := Inline(module)
	scope := map[string]cty.Value{}
	for name, variable := range root.Variables {
		given, isGiven := values[name]
		if unknown[name] || !isGiven && (unknownDefaults || root.Provided[name]) {
			scope[name] = variable.unknown()
			continue
		}
		if isGiven && !given.IsNull() {
			if converted, found := variable.convert(given); found == nil {
				given = converted
			}
		}
		scope[name] = variable.value(given, isGiven)
	}
	c.check(root, "", scope, 0)
	return c.problems
}

// conditions collects the conditions that are not met.
type conditions struct {
	module   terraform.Module
	seen     map[string]bool
	problems []Problem
	// budget limits the evaluation of all modules.
	budget *budget
}

// unknown returns an unknown value of the variable's type.
func (v *Variable) unknown() cty.Value {
	return cty.UnknownVal(v.Type.WithoutOptionalAttributesDeep())
}

// value returns the value that the module sees for a given one. It is unknown if it is
// missing or of another type, which Check reports.
func (v *Variable) value(given cty.Value, isGiven bool) cty.Value {
	if !isGiven || given.IsKnown() && given.IsNull() && !v.Nullable {
		if v.Default == cty.NilVal {
			return v.unknown()
		}
		given = v.Default
	}
	if v.Defaults != nil && given.IsKnown() && !given.IsNull() {
		given = v.Defaults.Apply(given)
	}
	converted, err := convertTo(given, v.Type)
	if err != nil {
		return v.unknown()
	}
	return converted
}

// check checks a module in a directory with the values of its variables.
func (c *conditions) check(m *Module, dir string, variables map[string]cty.Value, depth int) {
	if m.overridden || m.Diagnostics.HasErrors() || depth > maxModuleDepth {
		return
	}
	e := &evaluator{budget: c.budget, context: &hcl.EvalContext{Functions: functions, Variables: map[string]cty.Value{"var": cty.ObjectVal(variables)}}}
	var blocks hcl.Blocks
	for _, body := range m.bodies {
		content, _, _ := body.PartialContent(bodySchema)
		blocks = append(blocks, content.Blocks...)
	}
	e.addLocals(blocks)
	for _, block := range blocks {
		switch block.Type {
		case "variable":
			c.conditions(e, dir, block.Labels[0], block.Body, validationSchema)
		case "output":
			c.conditions(e, dir, "", block.Body, outputConditions)
		case "resource", "data":
			content, _, _ := block.Body.PartialContent(resourceSchema)
			if e.exists(content.Attributes) {
				for _, lifecycle := range content.Blocks {
					c.conditions(e, dir, "", lifecycle.Body, outputConditions)
				}
			}
		case "module":
			c.call(e, dir, block, depth)
		}
	}
}

// call checks a module that a block calls, if it is among the files.
func (c *conditions) call(e *evaluator, dir string, block *hcl.Block, depth int) {
	content, _, _ := block.Body.PartialContent(callSchema)
	source := content.Attributes["source"]
	if source == nil || !e.exists(content.Attributes) {
		return
	}
	text := constant(source.Expr)
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return
	}
	called := path.Join(dir, text)
	files := map[string][]byte{}
	for name, content := range c.module.Files {
		if path.Dir(name) == called {
			files[path.Base(name)] = []byte(content)
		}
	}
	if len(files) == 0 {
		return
	}
	m := Files(files)
	schema := &hcl.BodySchema{}
	for name := range m.Variables {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	arguments, _, _ := block.Body.PartialContent(schema)
	scope := map[string]cty.Value{}
	for name, variable := range m.Variables {
		argument, isGiven := arguments.Attributes[name]
		switch {
		case isGiven:
			scope[name] = variable.value(e.value(argument.Expr), true)
		case m.Provided[name]:
			scope[name] = variable.unknown()
		default:
			scope[name] = variable.value(cty.NilVal, false)
		}
	}
	c.check(m, called, scope, depth+1)
}

// conditions checks the conditions in a body. variable is the variable that they
// validate, if any.
func (c *conditions) conditions(e *evaluator, dir, variable string, body hcl.Body, schema *hcl.BodySchema) {
	found, _, _ := body.PartialContent(schema)
	for _, block := range found.Blocks {
		content, _, _ := block.Body.PartialContent(conditionSchema)
		condition := content.Attributes["condition"]
		if condition == nil {
			continue
		}
		value, err := convert.Convert(e.value(condition.Expr), cty.Bool)
		if err != nil || !value.IsKnown() || value.IsNull() || value.True() {
			continue
		}
		text := "a condition of the module is not met"
		if attribute := content.Attributes["error_message"]; attribute != nil {
			// A message that is not a constant may contain values.
			if constant := message.OneLine(constant(attribute.Expr)); constant != "" {
				text = constant
			}
		}
		if c.seen[text] {
			// The modules that pass a variable on often validate it too.
			continue
		}
		c.seen[text] = true
		at := condition.Expr.Range()
		c.problems = append(c.problems, problem(KindCondition, variable, "%s (%s)", text, fmt.Sprintf("%s:%d", path.Join(dir, at.Filename), at.Start.Line)))
	}
}

// evaluator evaluates expressions of a module.
type evaluator struct {
	context *hcl.EvalContext
	budget  *budget
}

// addLocals evaluates the local values, which may depend on each other. One that
// depends on anything but variables is unknown.
func (e *evaluator) addLocals(blocks hcl.Blocks) {
	pending := map[string]hcl.Expression{}
	for _, block := range blocks {
		if block.Type != "locals" {
			continue
		}
		attributes, _ := block.Body.JustAttributes()
		for name, attribute := range attributes {
			pending[name] = attribute.Expr
		}
	}
	locals := map[string]cty.Value{}
	for progress := true; progress; {
		progress = false
		for name, expr := range pending {
			if dependsOn(expr, pending) {
				continue
			}
			e.context.Variables["local"] = cty.ObjectVal(locals)
			locals[name] = e.value(expr)
			delete(pending, name)
			progress = true
		}
	}
	// A cycle, which the tool reports.
	for name := range pending {
		locals[name] = cty.DynamicVal
	}
	e.context.Variables["local"] = cty.ObjectVal(locals)
}

// dependsOn reports whether an expression refers to one of the local values, or to all.
func dependsOn(expr hcl.Expression, locals map[string]hcl.Expression) bool {
	for _, traversal := range expr.Variables() {
		if traversal.RootName() != "local" {
			continue
		}
		if len(traversal) < 2 {
			return true
		}
		attribute, ok := traversal[1].(hcl.TraverseAttr)
		if !ok {
			return true
		}
		if _, pending := locals[attribute.Name]; pending {
			return true
		}
	}
	return false
}

// value returns the value of an expression. It is unknown if the expression refers to
// anything but variables and local values, calls an unknown function, fails, or would take too
// much: the tool decides about it.
func (e *evaluator) value(expr hcl.Expression) cty.Value {
	syntax, ok := expr.(hclsyntax.Expression)
	if !ok {
		// Functions in JSON cannot be listed.
		return cty.DynamicVal
	}
	for _, traversal := range expr.Variables() {
		if root := traversal.RootName(); root != "var" && root != "local" {
			return cty.DynamicVal
		}
	}
	evaluable := true
	_ = hclsyntax.VisitAll(syntax, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
			if _, known := functions[call.Name]; !known {
				evaluable = false
			}
		}
		return nil
	})
	if !evaluable {
		return cty.DynamicVal
	}
	value, diagnostics, ok := e.budget.value(expr, e.context)
	if !ok || diagnostics.HasErrors() {
		return cty.DynamicVal
	}
	value, _ = value.UnmarkDeep()
	return value
}

// exists reports whether count and for_each are known to create at least one instance.
func (e *evaluator) exists(attributes hcl.Attributes) bool {
	if attribute := attributes["count"]; attribute != nil {
		count, err := convert.Convert(e.value(attribute.Expr), cty.Number)
		return err == nil && count.IsKnown() && !count.IsNull() && count.AsBigFloat().Sign() > 0
	}
	if attribute := attributes["for_each"]; attribute != nil {
		each := e.value(attribute.Expr)
		return each.IsKnown() && !each.IsNull() && each.CanIterateElements() && each.LengthInt() > 0
	}
	return true
}
