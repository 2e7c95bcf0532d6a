// Command captctl runs and looks at clusters that Terraform modules make. Under
// the name kubectl-capt it is a plugin of kubectl.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/appthrust/capt/internal/cli"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := cli.New(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}).ExecuteContext(ctx)
	cancel()
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, "captctl:", err)
	}
	os.Exit(cli.Code(err))
}
