package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Kind is what is wrong with a value or a wish.
type Kind string

const (
	// KindMissing is a required variable without a value.
	KindMissing Kind = "Missing"
	// KindUnknown is a value that no variable takes.
	KindUnknown Kind = "Unknown"
	// KindType is a value that cannot become what the variable takes.
	KindType Kind = "Type"
	// KindUnknownOutput is a wanted output that the module has not.
	KindUnknownOutput Kind = "UnknownOutput"
	// KindInvalidName is a name that no variable can have.
	KindInvalidName Kind = "InvalidName"
	// KindEncoding is a value that cannot be handed over.
	KindEncoding Kind = "Encoding"
)

// Problem is one thing that keeps a module from being used as asked. Its
// message never contains a value.
type Problem struct {
	Kind Kind
	// Name is the variable or output.
	Name    string
	Message string
}

func problem(kind Kind, name, format string, args ...any) Problem {
	return Problem{Kind: kind, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Check compares the values and the wanted outputs with what the module
// declares. A module with errors in its diagnostics is not worth checking.
func Check(module *Module, values Values, wantedOutputs []string) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable, declared := module.Variables[name]
		switch {
		case declared:
			if _, found := variable.encode(values[name]); found != nil {
				problems = append(problems, *found)
			}
		case !hclsyntax.ValidIdentifier(name):
			problems = append(problems, problem(KindInvalidName, name, "%q cannot be the name of a variable", name))
		default:
			problems = append(problems, problem(KindUnknown, name, "the module has no variable %q%s", name, suggest(name, maps.Keys(module.Variables))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		value, given := values[name]
		if module.Variables[name].Required && !module.Provided[name] && (!given || value.IsNull() && !module.Variables[name].takesNull()) {
			problems = append(problems, problem(KindMissing, name, "variable %q is required and has no value%s", name, described(module.Variables[name])))
		}
	}
	for _, name := range wantedOutputs {
		if _, declared := module.Outputs[name]; !declared {
			problems = append(problems, problem(KindUnknownOutput, name, "the module has no output %q%s", name, suggest(name, maps.Keys(module.Outputs))))
		}
	}
	return problems
}

func described(variable *Variable) string {
	text := strings.Join(strings.Fields(variable.Description), " ")
	const longest = 120
	if text == "" || len(text) > longest {
		return ""
	}
	return " (" + text + ")"
}

// convert returns the value in the variable's type. What is wrong is said
// without the value.
func (v *Variable) convert(value cty.Value) (cty.Value, *Problem) {
	given := friendly(value.Type())
	if !v.Type.IsPrimitiveType() && !v.TypeOmitted && !value.IsNull() && value.Type() == cty.String {
		text := value.AsString()
		if parsed, ok := parseText(text); ok && (v.Type != cty.DynamicPseudoType || looksComplex(text)) {
			value, given = parsed, "text of "+friendly(parsed.Type())
		}
	}
	completed := value
	if v.Defaults != nil && !value.IsNull() {
		completed = v.Defaults.Apply(value)
	}
	if _, err := convert.Convert(completed, v.Type); err != nil {
		found := problem(KindType, v.Name, "variable %q takes %s, but %s was given: %s", v.Name, typeexpr.TypeString(v.Type), given, err)
		return cty.NilVal, &found
	}
	if found := v.checkText(value); found != nil {
		return cty.NilVal, found
	}
	return value, nil
}

// friendly names a type as its author knows it.
func friendly(t cty.Type) string {
	if t.IsTupleType() {
		return "list"
	}
	return t.FriendlyName()
}

// checkText refuses strings that an environment cannot carry.
func (v *Variable) checkText(value cty.Value) *Problem {
	var found *Problem
	_ = cty.Walk(value, func(_ cty.Path, part cty.Value) (bool, error) {
		if !part.IsKnown() || part.IsNull() || part.Type() != cty.String {
			return true, nil
		}
		switch text := part.AsString(); {
		case strings.ContainsRune(text, 0):
			refused := problem(KindEncoding, v.Name, "the value of variable %q contains a NUL byte", v.Name)
			found = &refused
		case !utf8.ValidString(text):
			refused := problem(KindEncoding, v.Name, "the value of variable %q is not valid UTF-8", v.Name)
			found = &refused
		}
		return found == nil, nil
	})
	return found
}
