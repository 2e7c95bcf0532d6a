package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/text"
)

// addYes adds the --yes flag to a command.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "Do not ask for confirmation.")
}

// confirm asks the user a question unless yes is set. It returns an error if the
// answer is not yes, or if stdin is not a terminal.
func (o *Options) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !text.IsTerminal(o.In) {
		return usageError("stdin is not a terminal: pass --yes")
	}
	fmt.Fprintf(o.Err, "%s [y/N] ", question)
	// A missing newline at the end of the input is not an error.
	answer, _ := bufio.NewReader(o.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return &Exit{Code: 1, Err: errors.New("canceled: nothing was changed")}
	}
}
