package inspect

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/appthrust/capt/internal/message"
)

// Kind is the kind of a problem.
type Kind string

const (
	// KindMissing is a required variable without a value.
	KindMissing Kind = "Missing"
	// KindUnknown is a value of an undeclared variable.
	KindUnknown Kind = "Unknown"
	// KindType is a value that cannot be converted to the variable's type.
	KindType Kind = "Type"
	// KindUnknownOutput is a required output that the module does not declare.
	KindUnknownOutput Kind = "UnknownOutput"
	// KindInvalidName is an invalid name of a variable.
	KindInvalidName Kind = "InvalidName"
	// KindEncoding is a value that cannot be passed to the tool.
	KindEncoding Kind = "Encoding"
)

// Problem is a mismatch between a module and its values or required outputs. Its
// message never contains a value.
type Problem struct {
	Kind Kind
	// Name is the name of the variable or output.
	Name    string
	Message string
}

func problem(kind Kind, name, format string, args ...any) Problem {
	return Problem{Kind: kind, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Check checks the values and the required outputs against the declarations of the
// module. The module must have no errors in its diagnostics.
func Check(module *Module, values Values, requiredOutputs []string) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable, declared := module.Variables[name]
		switch {
		case declared:
			if _, found := variable.convert(values[name]); found != nil {
				problems = append(problems, *found)
			}
		case !hclsyntax.ValidIdentifier(name):
			problems = append(problems, problem(KindInvalidName, name, "%q is not a valid variable name", name))
		default:
			problems = append(problems, problem(KindUnknown, name, "the module has no variable %q%s", name, message.Suggestion(name, slices.Sorted(maps.Keys(module.Variables)))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		value, given := values[name]
		if module.Variables[name].Required && !module.Provided[name] && (!given || value.IsNull() && !module.Variables[name].Nullable) {
			problems = append(problems, problem(KindMissing, name, "variable %q is required and has no value%s", name, description(module.Variables[name])))
		}
	}
	for _, name := range requiredOutputs {
		if _, declared := module.Outputs[name]; !declared {
			problems = append(problems, problem(KindUnknownOutput, name, "the module has no output %q%s", name, message.Suggestion(name, slices.Sorted(maps.Keys(module.Outputs)))))
		}
	}
	return problems
}

// description returns the variable's description in parentheses, or an empty string if
// there is none or if it is long.
func description(variable *Variable) string {
	text := message.OneLine(variable.Description)
	const longest = 120
	if text == "" || len(text) > longest {
		return ""
	}
	return " (" + text + ")"
}

// convert returns the value if it can be converted to the variable's type, parsed if
// it is a string that contains a list, map or object.
func (v *Variable) convert(value cty.Value) (cty.Value, *Problem) {
	given := typeName(value.Type())
	if !v.Type.IsPrimitiveType() && !v.TypeOmitted && !value.IsNull() && value.Type() == cty.String {
		text := value.AsString()
		if parsed, ok := parseText(text); ok && (v.Type != cty.DynamicPseudoType || looksComplex(text)) {
			value, given = parsed, "string with "+typeName(parsed.Type())
		}
	}
	if _, err := convert.Convert(withoutHugeNumbers(value), v.Type); err != nil {
		found := problem(KindType, v.Name, "variable %q requires type %s, but the value has type %s: %s", v.Name, typeexpr.TypeString(v.Type), given, err)
		return cty.NilVal, &found
	}
	return value, nil
}

// maxExponent limits the binary exponent of numbers in texts that are converted.
const maxExponent = 1 << 12

// withoutHugeNumbers returns a value with another number in place of each text such as "1e999999999",
// which takes minutes and gigabytes where a conversion makes an element of a set, or text, of it.
func withoutHugeNumbers(value cty.Value) cty.Value {
	without, err := cty.Transform(value, func(_ cty.Path, part cty.Value) (cty.Value, error) {
		if !part.IsKnown() || part.IsNull() || part.Type() != cty.String {
			return part, nil
		}
		number, err := cty.ParseNumberVal(part.AsString())
		if err != nil {
			return part, nil
		}
		if exponent := number.AsBigFloat().MantExp(nil); max(exponent, -exponent) > maxExponent {
			return cty.StringVal("2"), nil
		}
		return part, nil
	})
	if err != nil {
		// The function returns none.
		panic(err)
	}
	return without
}

// typeName returns the name of a type for messages.
func typeName(t cty.Type) string {
	if t.IsTupleType() {
		return "list"
	}
	return t.FriendlyName()
}
