package inspect

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// typeOf returns the expression of a type in the native syntax: in JSON, it is a string, which HCL
// parses without a limit. It returns false if it is nested too deeply, or if the defaults of its
// attributes, which HCL evaluates, are too large.
func (b *budget) typeOf(expr hcl.Expression) (hcl.Expression, bool) {
	native, ok := expr.(hclsyntax.Expression)
	if !ok {
		text, at := []byte(constant(expr)), expr.Range()
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
	walker := &defaults{budget: b, ok: true}
	_ = hclsyntax.Walk(native, walker)
	return native, walker.ok
}

// defaults checks the defaults of the attributes of a type.
type defaults struct {
	budget *budget
	ok     bool
}

// Enter implements hclsyntax.Walker.
func (d *defaults) Enter(hclsyntax.Node) hcl.Diagnostics { return nil }

// Exit implements hclsyntax.Walker. It checks the defaults of inner attributes first, because those
// of outer attributes are converted with them.
func (d *defaults) Exit(node hclsyntax.Node) hcl.Diagnostics {
	call, isCall := node.(*hclsyntax.FunctionCallExpr)
	if !d.ok || !isCall || call.Name != "optional" || len(call.Args) != 2 {
		return nil
	}
	// The type is read once for each attribute that contains it.
	if d.ok = d.budget.spend(call.Args[0], nil); !d.ok {
		return nil
	}
	value, diagnostics, ok := d.budget.constant(call.Args[1], nil)
	if d.ok = ok; !ok || diagnostics.HasErrors() {
		return nil
	}
	attribute, _, diagnostics := typeexpr.TypeConstraintWithDefaults(call.Args[0])
	if !diagnostics.HasErrors() && attribute != cty.NilType {
		_, err := convertTo(value, attribute)
		d.ok = !errors.Is(err, errHugeNumber)
	}
	return nil
}
