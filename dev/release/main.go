// Command release performs the steps of a release that do not build anything.
//
//	release [-root DIR] [-dry-run] version|changelog|check|seal|github X.Y.Z
//
// VERSION of the environment is the version if none is given. Each step can be repeated. It refuses an invalid version and a working tree with
// other changes than its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/appthrust/capt/dev/revision"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", ".", "root of the repository")
	dryRun := flags.Bool("dry-run", false, "print what would be done")
	date := flags.String("date", time.Now().UTC().Format(time.DateOnly), "date of the release")
	tagged := flags.Bool("tagged", false, "require the tag of the release, on the main branch")
	dist := flags.String("dist", "dist", "directory of the files of the release, below the root")
	if err := flags.Parse(args); err != nil {
		return err
	}
	version := os.Getenv("VERSION")
	switch flags.NArg() {
	case 1:
	case 2:
		version = flags.Arg(1)
	default:
		return errors.New("usage: release [-root DIR] [-dry-run] version|changelog|check|seal|github X.Y.Z")
	}
	if version == "" && flags.Arg(0) == "seal" {
		// The files of any commit can be built, those of a release only with its version.
		current, err := revision.Version(*root)
		if err != nil {
			return err
		}
		version = strings.TrimPrefix(current, "v")
	}
	if err := revision.CheckVersion(version); err != nil {
		return err
	}
	r := &release{root: *root, version: version, date: *date, dist: *dist, dryRun: *dryRun, tagged: *tagged, out: out}
	switch step := flags.Arg(0); step {
	case "version":
		return r.updateVersion(ctx)
	case "changelog":
		return r.updateChangelog(ctx)
	case "check":
		return r.check(ctx)
	case "seal":
		return r.seal(ctx)
	case "github":
		return r.publish(ctx)
	default:
		return fmt.Errorf("step %q is unknown: use version, changelog, check, seal or github", step)
	}
}

// release is a release of CAPT.
type release struct {
	root, version, date, dist string
	// tagged requires that the tag of the release exists.
	dryRun, tagged bool
	out            io.Writer
}

// tag returns the Git tag of the release.
func (r *release) tag() string { return "v" + r.version }

func (r *release) printf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }
