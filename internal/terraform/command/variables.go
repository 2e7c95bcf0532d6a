package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// variablesFile is the file of a root module with the values of the request. All commands of the
// tool read it, also those that a user runs in a shell. The tool reads variable files in the
// order of their names, and the last value wins: this name is after those of the module.
const variablesFile = "~capt.auto.tfvars.json"

// InvalidInputsError means that the values of the request do not fit the module.
type InvalidInputsError struct {
	Problems []inspect.Problem
}

func (e *InvalidInputsError) Error() string {
	messages := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		messages[i] = p.Message
	}
	return strings.Join(messages, "; ")
}

// placeVariables checks the values of the request against the module, and writes them into it.
func placeVariables(root string, request *terraform.Request) error {
	path := filepath.Join(root, variablesFile)
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing variables: %w", err)
	}
	module, err := inspect.Dir(root)
	if err != nil {
		return err
	}
	if errs := module.Diagnostics.Errors(); len(errs) > 0 {
		return refusal("init", errs...)
	}
	content, problems, err := inspect.EncodeRequest(module, request)
	switch {
	case err != nil:
		return err
	case len(problems) > 0:
		return &InvalidInputsError{problems}
	case content == nil:
		return nil
	default:
		return writeFile(path, content)
	}
}
