package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
)

// addYes adds the --yes flag to a command.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "Do not ask for confirmation.")
}

// confirm asks the user a question unless yes is set. It returns an error if the
// answer is not yes, if stdin is not a terminal, or if the context ends before the answer.
func (o *Options) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !text.IsTerminal(o.In) {
		return usageError("stdin is not a terminal: pass --yes")
	}
	fmt.Fprintf(o.Err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	// A terminal cannot be read with a context: after an interrupt, captctl exits while
	// this still reads.
	go func() {
		// A missing newline at the end of the input is not an error.
		line, _ := bufio.NewReader(o.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	var given string
	select {
	case given = <-answer:
	case <-ctx.Done():
		fmt.Fprintln(o.Err)
		return fmt.Errorf("waiting for the answer: %w", ctx.Err())
	}
	switch given {
	case "y", "yes":
		return nil
	default:
		return &Exit{Code: 1, Err: errors.New("canceled: nothing was changed")}
	}
}
