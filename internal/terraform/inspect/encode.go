package inspect

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// envPrefix makes a variable's name that of its environment variable.
const envPrefix = "TF_VAR_"

// longestEnv is what Linux takes as one environment variable, name included.
const longestEnv = 128<<10 - 1

// EncodeEnv renders values as the environment variables by which the tool takes
// them. Values that no variable takes are left out; Check names them.
func EncodeEnv(module *Module, values Values) (map[string]string, []Problem) {
	env := map[string]string{}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable, declared := module.Variables[name]
		if !declared {
			continue
		}
		text, found := variable.encode(values[name])
		switch {
		case found != nil:
			problems = append(problems, *found)
		case text != nil:
			env[envPrefix+name] = *text
		}
	}
	return env, problems
}

// literal reports whether the tool takes the variable's text as it is. The
// text of any other variable is an expression.
func (v *Variable) literal() bool {
	return v.TypeOmitted || v.Type.IsPrimitiveType()
}

// takesNull reports whether null can be handed over.
func (v *Variable) takesNull() bool {
	return v.Nullable && !v.literal()
}

// encode renders a value; no text leaves the variable unset. That is what null
// means for a string, a number or a bool, which have no text for it.
func (v *Variable) encode(value cty.Value) (*string, *Problem) {
	value, found := v.convert(value)
	if found != nil {
		return nil, found
	}
	var text string
	switch {
	case value.IsNull() && !v.takesNull():
		return nil, nil
	case v.literal():
		asString, err := convert.Convert(value, cty.String)
		if err != nil {
			refused := problem(KindType, v.Name, "variable %q declares no type and so takes a string, but %s was given: declare its type in the module",
				v.Name, friendly(value.Type()))
			return nil, &refused
		}
		text = asString.AsString()
	default:
		text = string(hclwrite.TokensForValue(value).Bytes())
	}
	if size := len(envPrefix) + len(v.Name) + 1 + len(text); size > longestEnv {
		refused := problem(KindEncoding, v.Name, "the value of variable %q is %d bytes long, and at most %d can be handed over: let the module read it from a file",
			v.Name, len(text), longestEnv-len(envPrefix)-len(v.Name)-1)
		return nil, &refused
	}
	return &text, nil
}
