package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/text"
)

// addYes gives a command the flag --yes.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

// confirm asks a person. Without one, or with another answer than yes, nothing
// is done.
func (o *Options) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !text.IsTerminal(o.In) {
		return &Exit{Code: 2, Err: errors.New("nobody can be asked here: say --yes if you mean it")}
	}
	fmt.Fprintf(o.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil && answer == "" {
		return &Exit{Code: 1, Err: errors.New("nothing was done")}
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return &Exit{Code: 1, Err: errors.New("nothing was done")}
	}
}

// progress shows one line that changes: in place on a terminal, else as a line
// for each change.
type progress struct {
	o     *Options
	style text.Style
	last  string
	live  bool
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: text.StyleOf(o.Err), live: text.IsTerminal(o.Err)}
}

func (p *progress) show(line string) {
	if line == p.last {
		return
	}
	p.last = line
	if p.live {
		fmt.Fprintf(p.o.Err, "\r\x1b[K%s", p.style.Fit(line, 1))
		return
	}
	fmt.Fprintln(p.o.Err, line)
}

// end leaves the line.
func (p *progress) end() {
	if p.live && p.last != "" {
		fmt.Fprintf(p.o.Err, "\r\x1b[K")
	}
}
