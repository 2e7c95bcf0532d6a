package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/text"
)

// Version is CAPT's version; a release sets it when it is built.
var Version = ""

type about struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of captctl",
		Example: "  captctl version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := about{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if output.Structured() {
				return output.Print(o.Out, v)
			}
			fmt.Fprintf(o.Out, "captctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return nil
		},
	}
	addOutput(cmd, &output)
	return cmd
}

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}
