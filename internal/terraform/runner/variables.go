package runner

import (
	"errors"
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
	problems := inspect.EncodeRequest(module, run.request)
	if len(problems) == 0 {
		return nil
	}
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	run.result.InvalidInputs = string(problems[0].Kind)
	return terminal("Invalid inputs", errors.New(strings.Join(messages, "; ")))
}
