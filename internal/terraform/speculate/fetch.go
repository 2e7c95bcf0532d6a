package speculate

import (
	"context"
	"io"
	"os"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// Fetch fetches a remote module with the tool, as a run does, and returns the directory of the
// root module, below that of the options.
func Fetch(ctx context.Context, module terraform.Module, options Options) (string, error) {
	tool, err := binary.Find(options.Binary)
	if err != nil {
		return "", err
	}
	workdir := &command.Workdir{Tool: tool, Dir: options.Dir, Inherit: options.Inherit, CLIConfig: os.Getenv(command.CLIConfigEnv), Log: io.Discard}
	return command.Fetch(ctx, workdir, &terraform.Request{Module: module})
}
