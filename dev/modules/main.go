// Command modules checks the Terraform modules in a directory with the real OpenTofu
// and the real AWS provider, without a cloud. It checks formatting, the validity of
// every module and example, their tests, their error messages for invalid input and
// their READMEs. With a plan it checks that a migration from modules/eks-v1 to
// modules/eks destroys nothing.
//
//	modules [-parts DIR] [-only NAME,NAME] [-tofu PROGRAM]
//	modules -write-readmes
//
// It works on a copy and writes nothing to the tree. The tests are for OpenTofu, whose
// mocks have values during a plan. With Terraform some of them fail, but validation
// and the plans are still useful.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// root is the directory of the modules.
	root = "../modules"
	// parallel is how many modules are checked at the same time.
	parallel = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("modules", flag.ContinueOnError)
	parts := flags.String("parts", "../bin/parts", "directory of tofu and the providers")
	binary := flags.String("tofu", "", "program to run, OpenTofu or Terraform (default: tofu of the parts)")
	only := flags.String("only", "", "comma-separated names of the modules to check (default: all)")
	write := flags.Bool("write-readmes", false, "write the tables of inputs and outputs into the READMEs, and check nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	modules, err := findModules(root)
	if err != nil {
		return err
	}
	if *only != "" {
		if modules, err = choose(modules, strings.Split(*only, ",")); err != nil {
			return err
		}
	}
	if *write {
		return writeReadmes(os.Stdout, modules)
	}
	work, err := newWorkspace(root, *parts)
	if err != nil {
		return err
	}
	defer work.remove()
	if *binary != "" {
		work.tofu = *binary
	}
	return checkAll(ctx, os.Stdout, work, modules)
}

// check is one check.
type check struct {
	name string
	// run returns a summary. It may be called concurrently with other checks.
	run func(ctx context.Context) (string, error)
}

// checkAll runs every check, prints the progress, and returns an error if one failed.
func checkAll(ctx context.Context, out io.Writer, work *workspace, modules []module) error {
	checks := []check{{"formatting", work.format}, {"shared files", func(context.Context) (string, error) { return checkShared(work.source) }}}
	var named []string
	for _, m := range modules {
		named = append(named, m.name)
		checks = append(checks, check{m.name, func(ctx context.Context) (string, error) { return work.checkModule(ctx, m) }})
	}
	if slices.Contains(named, migrationFrom) && slices.Contains(named, migrationTo) {
		checks = append(checks, check{"migration from " + migrationFrom + " to " + migrationTo, work.checkMigration})
	}
	if slices.Contains(named, usageOf) {
		checks = append(checks, check{"usage in the README of " + usageOf, work.checkUsage})
	}
	if len(named) > 1 {
		checks = append(checks, check{"plans of the real provider", work.checkPlans})
	}
	started := time.Now()
	failures := runChecks(ctx, out, checks)
	if len(failures) > 0 {
		fmt.Fprintf(out, "\n%s\n\n", errors.Join(failures...))
		return fmt.Errorf("%d of %d checks failed in %s", len(failures), len(checks), time.Since(started).Round(time.Second))
	}
	fmt.Fprintf(out, "modules: %d checks passed in %s\n", len(checks), time.Since(started).Round(time.Second))
	return nil
}

// runChecks runs the checks, and returns the failures in their order.
func runChecks(ctx context.Context, out io.Writer, checks []check) []error {
	results := make([]error, len(checks))
	var done int
	var mutex sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range checks {
		group.Go(func() error {
			started := time.Now()
			seen, err := c.run(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			done++
			verdict := "ok"
			if err != nil {
				results[i], verdict = fmt.Errorf("%s: %w", c.name, err), "FAILED"
			}
			fmt.Fprintf(out, "modules [%d/%d] %-36s %-6s %5.1fs  %s\n", done, len(checks), c.name, verdict, time.Since(started).Seconds(), seen)
			return nil
		})
	}
	_ = group.Wait() // The failures are in results.
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

// sharedFiles are files that two modules have in common.
var sharedFiles = []struct{ to, from, file string }{
	{"eks-v1", "eks", "variables.tf"},
	{"eks-v1", "eks", "cluster.tf"},
}

func checkShared(root string) (string, error) {
	var problems []error
	for _, shared := range sharedFiles {
		original, err := os.ReadFile(filepath.Join(root, shared.from, shared.file))
		if err != nil {
			return "", fmt.Errorf("reading a shared file: %w", err)
		}
		copied, err := os.ReadFile(filepath.Join(root, shared.to, shared.file))
		if err != nil {
			return "", fmt.Errorf("reading a shared file: %w", err)
		}
		if string(original) != string(copied) {
			problems = append(problems, fmt.Errorf("%s/%s differs from %s/%s: copy the changed file over the other", shared.to, shared.file, shared.from, shared.file))
		}
	}
	if err := checkProviders(root); err != nil {
		problems = append(problems, err)
	}
	return fmt.Sprintf("%d files", len(sharedFiles)), errors.Join(problems...)
}

var awsVersion = regexp.MustCompile(`source\s*=\s*"hashicorp/aws"\s*version\s*=\s*"([^"]*)"`)

// checkProviders returns an error if modules or examples require different versions of
// the AWS provider: the oldest one that is accepted has everything that any of them uses.
func checkProviders(root string) error {
	first, firstFile := "", ""
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".tf" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		match := awsVersion.FindSubmatch(text)
		switch {
		case match == nil:
		case first == "":
			first, firstFile = string(match[1]), path
		case string(match[1]) != first:
			return fmt.Errorf("%s requires version %q of the AWS provider, but %s %q", path, match[1], firstFile, first)
		}
		return nil
	})
}
