// Command manifests writes the manifests of a release from config/, flavors/,
// clusterclasses/ and templates/.
//
//	manifests build -version X.Y.Z [-uncommitted]   write the files of a release to dist/
//	manifests webhooks                          divide the webhooks between the providers
//	manifests chart                             write the generated templates of charts/capt
//
// The same commit and version result in the same files, byte for byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `Usage:
  manifests build -version X.Y.Z [-root DIR] [-out DIR] [-uncommitted]
        write the files of a release
  manifests webhooks [-root DIR]
        write config/providers/*/webhooks.yaml from config/webhook/manifests.yaml
  manifests chart [-root DIR]
        write the templates of charts/capt that are generated from config/`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no command\n" + usage)
	}
	flags := flag.NewFlagSet("manifests "+args[0], flag.ContinueOnError)
	root := flags.String("root", "..", "root of the project")
	switch args[0] {
	case "webhooks", "chart":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if args[0] == "chart" {
			return writeChart(*root)
		}
		return splitWebhooks(*root)
	case "build":
		var r release
		flags.StringVar(&r.version, "version", "", "version of the release, X.Y.Z")
		flags.StringVar(&r.out, "out", "../dist", "directory to write")
		flags.BoolVar(&r.uncommitted, "uncommitted", false, "accept changes that are not committed, in tests")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		r.root = *root
		return r.build(context.Background())
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}
