// Command localcluster runs a Kubernetes control plane as processes on this machine,
// and creates nodes in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `localcluster runs a Kubernetes control plane as processes on this machine.

  localcluster up --dir DIR --name NAME --kubernetes-version VERSION
  localcluster status --dir DIR [-o json]
  localcluster stop --dir DIR
  localcluster down --dir DIR
  localcluster node apply|delete

Run a command with --help for its flags.
`

// errNotReady makes the program exit with 1 after it has printed everything.
var errNotReady = errors.New("not ready")

var commands = map[string]func(context.Context, []string) error{
	"up": up, "status": status, "stop": stop, "down": down, "node": nodes,
	// The supervisor, which the command up starts.
	"run": run,
}

func main() {
	err := dispatch(os.Args[1:])
	if err != nil && !errors.Is(err, errNotReady) {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errNotReady
	}
	command, known := commands[args[0]]
	switch {
	case known:
		return command(ctx, args[1:])
	case args[0] == "help" || args[0] == "--help" || args[0] == "-h":
		fmt.Print(usage)
		return nil
	default:
		return fmt.Errorf("unknown command %q: use up, status, stop, down or node", args[0])
	}
}
