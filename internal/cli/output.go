package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
)

// addOutput adds the --output flag for JSON and YAML to a command.
func addOutput(cmd *cobra.Command, output *text.Output) {
	addFormat(cmd, (*string)(output), string(text.JSON), string(text.YAML))
}

// addFormat adds the --output flag for the given formats to a command. The value
// of output is the default.
func addFormat(cmd *cobra.Command, output *string, formats ...string) {
	f := &format{value: output, formats: formats}
	cmd.Flags().VarP(f, "output", "o", "Output format: "+f.list()+".")
	completeWords(cmd, "output", formats)
}

// format is the value of a flag that accepts one of several formats. It
// implements pflag.Value.
type format struct {
	value   *string
	formats []string
}

func (f *format) String() string { return *f.value }

func (f *format) Type() string { return "format" }

func (f *format) Set(value string) error {
	if !slices.Contains(f.formats, value) {
		return fmt.Errorf("unknown output format %q: use %s", value, f.list())
	}
	*f.value = value
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
