package inspect

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// evaluate returns the value of a literal, which may contain variables of the scope. It refuses
// other expressions: a few nested loops would exhaust the memory of the manager.
func evaluate(expr hcl.Expression, scope *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if !isLiteral(expr) {
		return cty.NilVal, notLiteral(expr.Range())
	}
	return expr.Value(scope)
}

// isLiteral reports whether an expression has no operators, conditions, loops or indexes. References
// and function calls, which the scope may not have, are left to HCL. An expression in JSON is a
// literal, except for the templates in its strings, which HCL evaluates with a scope only.
func isLiteral(expr hcl.Expression) bool {
	native, ok := expr.(hclsyntax.Expression)
	if !ok {
		return true
	}
	literal := true
	_ = hclsyntax.VisitAll(native, func(node hclsyntax.Node) hcl.Diagnostics {
		switch node := node.(type) {
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ParenthesesExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr,
			*hclsyntax.ScopeTraversalExpr, *hclsyntax.FunctionCallExpr:
		case *hclsyntax.UnaryOpExpr:
			number, isNumber := node.Val.(*hclsyntax.LiteralValueExpr)
			literal = literal && isNumber && node.Op == hclsyntax.OpNegate && number.Val.Type() == cty.Number
		default:
			literal = false
		}
		return nil
	})
	return literal
}

// areLiteral reports whether all templates are literals.
func areLiteral(templates []string) bool {
	return !slices.ContainsFunc(templates, func(text string) bool {
		expr, diagnostics := hclsyntax.ParseTemplate([]byte(text), "", hcl.InitialPos)
		return !diagnostics.HasErrors() && !isLiteral(expr)
	})
}

// notLiteral is the error of an expression that is not evaluated.
func notLiteral(at hcl.Range) hcl.Diagnostics {
	return failure(at, "Not a literal", "Operators, conditions and loops are not allowed here: write the value.")
}
