package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/version"
)

func newVersionCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of captctl",
		Example: "  captctl version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			if output.Structured() {
				return output.Print(o.Out, info)
			}
			fmt.Fprintf(o.Out, "captctl %s\n", info)
			return nil
		},
	}
	addOutput(cmd, &output)
	return cmd
}
