// Command docs checks the documentation and builds its site.
//
//	docs check      links, anchors, the navigation, the markers of command blocks, and translations
//	docs reference  writes docs/reference/api.md from the CRDs
//	docs build      builds the site with MkDocs to out/site; needs Python 3 and PyPI
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("docs", flag.ContinueOnError)
	root := flags.String("root", "..", "root of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "check":
		findings, err := check(*root)
		if err != nil {
			return err
		}
		var all error
		for _, finding := range findings {
			all = errors.Join(all, errors.New(finding))
		}
		return all
	case "reference":
		return writeReference(*root)
	case "build":
		return build(ctx, *root)
	default:
		return fmt.Errorf("unknown command %q: use check, reference or build", flags.Arg(0))
	}
}
