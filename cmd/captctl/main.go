// Command captctl creates and operates clusters that are built from Terraform
// modules. Under the name kubectl-capt it is a kubectl plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/client/text"
)

func main() {
	// Libraries log nothing: the command prints its error once.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	root := cli.New(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	name := cli.CalledAs(root, os.Args)
	err := root.ExecuteContext(ctx)
	cancel()
	if err != nil && err.Error() != "" {
		// Errors suggest commands: use the name by which the program was called.
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, text.Clean(strings.ReplaceAll(err.Error(), "captctl ", name+" ")))
	}
	os.Exit(cli.Code(err))
}
