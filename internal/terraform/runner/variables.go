package runner

import (
	"errors"
	"maps"
	"strings"

	"github.com/appthrust/capt/internal/terraform/inspect"
)

// encodeVariables checks the request's values against the fetched module and adds
// them to the environment.
func encodeVariables(run *execution) error {
	module, err := inspect.Dir(run.session.Root)
	if err != nil {
		return err
	}
	if errs := module.Diagnostics.Errors(); len(errs) > 0 {
		return terminal("Invalid module", errors.New(errs.Short()))
	}
	values, problems := inspect.FromJSON(run.request.Variables)
	for _, name := range run.request.Fillers {
		if _, declared := module.Variables[name]; !declared {
			delete(values, name)
		}
	}
	problems = append(problems, inspect.Check(module, values, run.request.Outputs)...)
	env, more := inspect.EncodeEnv(module, values)
	if problems = append(problems, more...); len(problems) > 0 {
		var messages []string
		for _, p := range problems {
			messages = append(messages, p.Message)
		}
		run.result.InvalidInputs = string(problems[0].Kind)
		return terminal("Invalid inputs", errors.New(strings.Join(messages, "; ")))
	}
	if run.request.Env == nil {
		run.request.Env = map[string]string{}
	}
	maps.Copy(run.request.Env, env)
	for name, variable := range module.Variables {
		if variable.Sensitive {
			run.request.SecretEnv = append(run.request.SecretEnv, "TF_VAR_"+name)
		}
	}
	return nil
}
