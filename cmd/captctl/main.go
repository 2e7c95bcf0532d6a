// Command captctl runs and looks at clusters that Terraform modules make. Under
// the name kubectl-capt it is a plugin of kubectl.
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
)

func main() {
	// What goes wrong is said once, by the command.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	root := cli.New(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	name := cli.CalledAs(root, os.Args)
	err := root.ExecuteContext(ctx)
	cancel()
	if err != nil && err.Error() != "" {
		// What to do next is said in the words that lead there.
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.ReplaceAll(err.Error(), "captctl ", name+" "))
	}
	os.Exit(cli.Code(err))
}
