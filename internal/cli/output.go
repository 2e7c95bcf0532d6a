package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
)

// addOutput adds the --output flag for JSON and YAML to a command.
func addOutput(cmd *cobra.Command, output *text.Output) { addFormat(cmd, output, text.JSON, text.YAML) }

// addFormat adds the --output flag for the given formats to a command. The value
// of output is the default.
func addFormat(cmd *cobra.Command, output *text.Output, formats ...text.Output) {
	f := newFormat("output format", output, formats...)
	cmd.Flags().VarP(f, "output", "o", "Output format: "+f.list()+".")
	completeWords(cmd, "output", f.formats)
}

// format is the value of a flag that accepts one of several formats. It
// implements pflag.Value.
type format struct {
	what    string
	value   *text.Output
	formats []string
}

func newFormat(what string, value *text.Output, formats ...text.Output) *format {
	f := &format{what: what, value: value}
	for _, name := range formats {
		f.formats = append(f.formats, string(name))
	}
	return f
}

func (f *format) String() string { return string(*f.value) }

func (f *format) Type() string { return "format" }

func (f *format) Set(value string) error {
	if !slices.Contains(f.formats, value) {
		return fmt.Errorf("unknown %s %q: use %s", f.what, value, f.list())
	}
	*f.value = text.Output(value)
	return nil
}

// list returns "a, b or c".
func (f *format) list() string {
	last := len(f.formats) - 1
	if last == 0 {
		return f.formats[0]
	}
	return strings.Join(f.formats[:last], ", ") + " or " + f.formats[last]
}
