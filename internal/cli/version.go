package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/text"
)

// Version is the version of CAPT. Release builds set it with -ldflags.
var Version = ""

// versionInfo is the structured output of captctl version.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of captctl",
		Example: "  captctl version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

// version returns the version of the release, else that of the Go module.
func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}
