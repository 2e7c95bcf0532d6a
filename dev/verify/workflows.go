package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rhysd/actionlint"
)

// verifyWorkflows checks the workflows of GitHub Actions.
func verifyWorkflows(root string) error {
	// shellcheck and pyflakes are used only if they are installed, so that the result
	// would depend on the machine.
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: "", Pyflakes: ""})
	if err != nil {
		return fmt.Errorf("checking the workflows: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the workflows: %w", err)
	}
	if len(files) == 0 {
		return nil
	}
	problems, err := linter.LintFiles(files, nil)
	if err != nil {
		return fmt.Errorf("checking the workflows: %w", err)
	}
	var errs []error
	for _, problem := range problems {
		errs = append(errs, fmt.Errorf("%s:%d: %s", problem.Filepath, problem.Line, problem.Message))
	}
	return errors.Join(errs...)
}
