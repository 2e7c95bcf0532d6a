// Command charts packs the Helm charts of the built-in add-ons from Go modules,
// and serves them to Flux: at the same address as a plain Helm repository and as
// an OCI registry. It is used for clusters without internet access.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage:
  charts pack --out DIR
        pack every chart into DIR
  charts serve --dir DIR [--address HOST:PORT] [--address-file FILE]
        serve the charts in DIR at http://HOST:PORT and oci://HOST:PORT/charts
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("charts "+command, flag.ContinueOnError)
	switch command {
	case "pack":
		out := flags.String("out", "", "output directory")
		if err := flags.Parse(args); err != nil {
			return err
		}
		if *out == "" {
			return fmt.Errorf("pack requires --out DIR")
		}
		return packAll(ctx, os.Stderr, *out)
	case "serve":
		s := server{log: os.Stderr}
		flags.StringVar(&s.dir, "dir", "", "directory of packed charts")
		flags.StringVar(&s.address, "address", "127.0.0.1:0", "address to listen at; port 0 selects a free port")
		flags.StringVar(&s.addressFile, "address-file", "", "file to write the address to once every chart is served")
		if err := flags.Parse(args); err != nil {
			return err
		}
		if s.dir == "" {
			return fmt.Errorf("serve requires --dir DIR: create it with charts pack --out DIR")
		}
		return s.run(ctx)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}
