// Command charts packs the Helm charts of the built-in add-ons from Go modules,
// and serves them to Flux: at the same address as a plain Helm repository and as
// an OCI registry. It is used for clusters without internet access. It also checks,
// packs and pushes the chart of CAPT itself.
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
  charts package --chart DIR --version X.Y.Z --out DIR [--images FILE --commit HASH]
        check a chart of this repository and pack it, with the digests of the images that FILE
        records if they are of this version and commit
  charts push --package FILE --registry HOST/PATH [--digest-file FILE] [--plain-http]
        push a packed chart to oci://HOST/PATH/charts, with the credentials of Docker or Helm
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
	case "package":
		return runPackage(flags, args)
	case "push":
		return runPush(flags, args)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}

func runPackage(flags *flag.FlagSet, args []string) error {
	dir := flags.String("chart", "", "directory of the chart")
	version := flags.String("version", "", "version of the package; default is that of the chart")
	out := flags.String("out", "", "output directory")
	file := flags.String("images", "", "record of the images of a release")
	commit := flags.String("commit", "", "commit of the chart")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *out == "" {
		return fmt.Errorf("package requires --chart DIR and --out DIR")
	}
	return packOwn(*dir, *version, *out, built{record: *file, commit: *commit})
}

func runPush(flags *flag.FlagSet, args []string) error {
	file := flags.String("package", "", "packed chart")
	registry := flags.String("registry", "", "registry and path, for example ghcr.io/appthrust")
	digest := flags.String("digest-file", "", "file to write the name and the digest of the chart to")
	plain := flags.Bool("plain-http", false, "use HTTP without TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || *registry == "" {
		return fmt.Errorf("push requires --package FILE and --registry HOST/PATH")
	}
	pushed, err := pushOwn(*file, *registry, *plain)
	if err != nil || *digest == "" {
		return err
	}
	if err := os.WriteFile(*digest, []byte(pushed+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the digest: %w", err)
	}
	return nil
}
