package inspect

import (
	"encoding/json"
	"fmt"
	"slices"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/appthrust/capt/internal/terraform"
)

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
