package inspect

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/appthrust/capt/internal/terraform"
)

// envPrefix is the prefix of the environment variable of a Terraform variable.
const envPrefix = "TF_VAR_"

// longestEnv is the limit of Linux for an environment variable in bytes, including
// its name.
const longestEnv = 128<<10 - 1

// EncodeEnv encodes values as environment variables of the tool. It omits values of
// undeclared variables, which Check reports.
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

// EncodeRequest checks the values of a request against its module, whose declarations
// were not known when the request was made, and adds them to the environment.
func EncodeRequest(module *Module, request *terraform.Request) []Problem {
	values, problems := FromJSON(request.Variables)
	for _, name := range request.Fillers {
		if _, declared := module.Variables[name]; !declared {
			delete(values, name)
		}
	}
	problems = append(problems, Check(module, values, request.Outputs)...)
	env, more := EncodeEnv(module, values)
	if problems = append(problems, more...); len(problems) > 0 {
		return problems
	}
	if request.Env == nil {
		request.Env = map[string]string{}
	}
	maps.Copy(request.Env, env)
	for name, variable := range module.Variables {
		if variable.Sensitive {
			request.SecretEnv = append(request.SecretEnv, envPrefix+name)
		}
	}
	return nil
}

// literal reports whether the tool uses the text of the environment variable as it
// is. For other variables the text is an expression.
func (v *Variable) literal() bool {
	return v.TypeOmitted || v.Type.IsPrimitiveType()
}

// takesNull reports whether the environment variable can be set to null.
func (v *Variable) takesNull() bool {
	return v.Nullable && !v.literal()
}

// encode returns the text of a value, or nil if the variable must remain unset. That
// is the case for null as a string, number or bool, which has no text.
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
			found := problem(KindType, v.Name, "variable %q declares no type and so requires a string, but the value has type %s: declare the type in the module",
				v.Name, typeName(value.Type()))
			return nil, &found
		}
		text = asString.AsString()
	default:
		text = string(hclwrite.TokensForValue(value).Bytes())
	}
	if size := len(envPrefix) + len(v.Name) + 1 + len(text); size > longestEnv {
		found := problem(KindEncoding, v.Name, "the value of variable %q has %d bytes, but the limit is %d: let the module read it from a file",
			v.Name, len(text), longestEnv-len(envPrefix)-len(v.Name)-1)
		return nil, &found
	}
	return &text, nil
}
