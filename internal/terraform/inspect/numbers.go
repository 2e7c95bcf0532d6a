package inspect

import (
	"errors"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// maxExponent limits the binary exponent of numbers. "1e999999999" is short, and a number of a few
// bytes, but takes minutes and gigabytes where it becomes text, an element of a set or an integer.
const maxExponent = 1 << 12

// errHugeNumber is the error of a value with a number above maxExponent.
var errHugeNumber = errors.New("a number has too many digits")

// isHuge reports whether a value is such a number.
func isHuge(value cty.Value) bool {
	if value.Type() != cty.Number || !value.IsKnown() || value.IsNull() {
		return false
	}
	value, _ = value.Unmark()
	exponent := value.AsBigFloat().MantExp(nil)
	return max(exponent, -exponent) > maxExponent
}

// isHugeText reports whether a value is a string that becomes such a number.
func isHugeText(value cty.Value) bool {
	if value.Type() != cty.String || !value.IsKnown() || value.IsNull() {
		return false
	}
	value, _ = value.Unmark()
	number, err := cty.ParseNumberVal(value.AsString())
	return err == nil && isHuge(number)
}

// hasHuge reports whether a value is or contains such a number.
func hasHuge(value cty.Value) bool { return contains(value, isHuge) }

// contains reports whether a condition holds for a value or a part of it. It does not look into
// sets: the numbers in them were converted to text before.
func contains(value cty.Value, condition func(cty.Value) bool) bool {
	value, _ = value.Unmark()
	if condition(value) {
		return true
	}
	if !value.IsKnown() || value.IsNull() || value.Type().IsSetType() || !value.CanIterateElements() {
		return false
	}
	for it := value.ElementIterator(); it.Next(); {
		if _, element := it.Element(); contains(element, condition) {
			return true
		}
	}
	return false
}

// convertTo converts a value to the type of a variable. It fails instead of storing a number with
// too many digits.
func convertTo(value cty.Value, to cty.Type) (cty.Value, error) {
	// The elements of sets are converted to text.
	loose, err := convert.Convert(value, withoutSets(to))
	if err == nil && hasHuge(loose) || err != nil && contains(value, isHugeText) {
		return cty.NilVal, errHugeNumber
	}
	return convert.Convert(value, to)
}

// withoutSets returns a type with lists in place of sets.
func withoutSets(t cty.Type) cty.Type {
	switch {
	case t.IsSetType(), t.IsListType():
		return cty.List(withoutSets(t.ElementType()))
	case t.IsMapType():
		return cty.Map(withoutSets(t.ElementType()))
	case t.IsTupleType():
		elements := slices.Clone(t.TupleElementTypes())
		for i := range elements {
			elements[i] = withoutSets(elements[i])
		}
		return cty.Tuple(elements)
	case t.IsObjectType():
		attributes, optional := map[string]cty.Type{}, []string{}
		for name, attribute := range t.AttributeTypes() {
			attributes[name] = withoutSets(attribute)
			if t.AttributeOptional(name) {
				optional = append(optional, name)
			}
		}
		return cty.ObjectWithOptionalAttrs(attributes, optional)
	default:
		return t
	}
}

// limited returns a function that returns an unknown value where f would take or return a number
// with too many digits.
func limited(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if slices.ContainsFunc(args, hasHuge) {
				return cty.DynamicPseudoType, nil
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, returned cty.Type) (cty.Value, error) {
			if slices.ContainsFunc(args, hasHuge) {
				return cty.DynamicVal, nil
			}
			value, err := f.Call(args)
			if err == nil && hasHuge(value) {
				return cty.UnknownVal(returned), nil
			}
			return value, err
		},
	})
}

// operations are the operators that return numbers, and their limited counterparts.
var operations = func() map[*hclsyntax.Operation]*hclsyntax.Operation {
	found := map[*hclsyntax.Operation]*hclsyntax.Operation{}
	for _, op := range []*hclsyntax.Operation{
		hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply, hclsyntax.OpDivide, hclsyntax.OpModulo, hclsyntax.OpNegate,
	} {
		found[op] = &hclsyntax.Operation{Impl: limited(op.Impl), Type: op.Type}
	}
	return found
}()

// limitedKey is the key of an index, which HCL converts to a number and to an integer. It is
// unknown if that would have too many digits.
type limitedKey struct{ *hclsyntax.ParenthesesExpr }

// Value implements hcl.Expression.
func (k *limitedKey) Value(scope *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	value, diagnostics := k.ParenthesesExpr.Value(scope)
	if isHuge(value) || isHugeText(value) {
		return cty.DynamicVal, diagnostics
	}
	return value, diagnostics
}

// limitNumbers changes an expression so that its operators and indexes return an unknown value
// instead of a number with too many digits, and use none. It returns false if a constant index is
// such a number. The functions are limited where they are defined.
func limitNumbers(expr hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch node := node.(type) {
		case *hclsyntax.BinaryOpExpr:
			if op, found := operations[node.Op]; found {
				node.Op = op
			}
		case *hclsyntax.UnaryOpExpr:
			if op, found := operations[node.Op]; found {
				node.Op = op
			}
		case *hclsyntax.IndexExpr:
			if _, done := node.Key.(*limitedKey); !done {
				node.Key = &limitedKey{&hclsyntax.ParenthesesExpr{Expression: node.Key, SrcRange: node.Key.Range()}}
			}
		case *hclsyntax.ScopeTraversalExpr:
			ok = ok && !hasHugeIndex(node.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			ok = ok && !hasHugeIndex(node.Traversal)
		}
		return nil
	})
	return ok
}

// computes reports whether an expression has operators or indexes, in which numbers may arise.
func computes(expr hclsyntax.Expression) bool {
	found := false
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch node.(type) {
		case *hclsyntax.BinaryOpExpr, *hclsyntax.UnaryOpExpr, *hclsyntax.IndexExpr:
			found = true
		}
		return nil
	})
	return found
}

// hasHugeIndex reports whether a step of a traversal is a constant with too many digits.
func hasHugeIndex(traversal hcl.Traversal) bool {
	return slices.ContainsFunc(traversal, func(step hcl.Traverser) bool {
		index, ok := step.(hcl.TraverseIndex)
		return ok && (isHuge(index.Key) || isHugeText(index.Key))
	})
}
