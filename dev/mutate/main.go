// Command mutate checks that the tests of a package notice changed decisions. It
// changes one operator of the package at a time, runs the package's tests on the
// changed source, and counts the changes that no test noticed.
//
// The source tree is not touched: each changed file is passed to the compiler as
// an overlay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

type options struct {
	dir     string
	mutants int
	seed    uint64
}

const (
	// threshold is the percentage of changes that the tests of each package must notice.
	threshold = 90.0
	// parallel is how many changes are tested at a time.
	parallel = 2
	// timeout is how long the tests of one change may take. A change that exceeds it counts as
	// noticed.
	timeout = 2 * time.Minute
)

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".", "directory of the Go module")
	flag.IntVar(&o.mutants, "mutants", 40, "how many changes to try in each package; 0 tries all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "chooses which changes are tried")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, o, os.Stdout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// check tests every package, and fails if the score of one is too low.
func check(ctx context.Context, o options, out io.Writer, packages []string) error {
	if len(packages) == 0 {
		return errors.New("name at least one package, for example ./internal/message")
	}
	fmt.Fprintf(out, "seed %d\n", o.seed)
	var weak []string
	for _, pkg := range packages {
		noticed, tried, err := checkPackage(ctx, o, out, pkg)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		percentage := 100.0
		if tried > 0 {
			percentage = 100 * float64(noticed) / float64(tried)
		}
		fmt.Fprintf(out, "%-50s %3d of %3d changes noticed (%.0f %%)\n", pkg, noticed, tried, percentage)
		if percentage < threshold {
			weak = append(weak, pkg)
		}
	}
	if len(weak) > 0 {
		return fmt.Errorf("the tests notice less than %.0f %% of the changes in %s", threshold, strings.Join(weak, ", "))
	}
	return nil
}

func checkPackage(ctx context.Context, o options, out io.Writer, pkg string) (noticed, tried int, err error) {
	files, err := sources(ctx, o.dir, pkg)
	if err != nil {
		return 0, 0, err
	}
	var mutants []mutant
	for _, file := range files {
		found, err := parse(file)
		if err != nil {
			return 0, 0, err
		}
		mutants = append(mutants, found...)
	}
	shuffle := rand.New(rand.NewPCG(o.seed, 0))
	shuffle.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	if o.mutants > 0 && len(mutants) > o.mutants {
		mutants = mutants[:o.mutants]
	}
	// Without a change the tests must pass, or every change would count as noticed.
	if result, text, err := test(ctx, o, pkg, ""); err != nil {
		return 0, 0, err
	} else if result != passed {
		return 0, 0, fmt.Errorf("the tests do not pass without a change:\n%s", text)
	}
	var mu sync.Mutex
	var missed []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range mutants {
		group.Go(func() error {
			result, err := try(ctx, o, pkg, m)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			switch result {
			case failed:
				tried++
				noticed++
			case passed:
				tried++
				missed = append(missed, m.String())
			case notCompiled:
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return noticed, tried, err
	}
	slices.Sort(missed)
	for _, text := range missed {
		fmt.Fprintln(out, "  not noticed:", text)
	}
	return noticed, tried, nil
}

// sources returns the files of a package without its tests.
func sources(ctx context.Context, dir, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, pkg)
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing its files: %w", explain(err))
	}
	return slices.DeleteFunc(strings.Fields(string(text)), func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), "zz_generated")
	}), nil
}

// outcome is the result of a test run.
type outcome int

const (
	passed outcome = iota
	failed
	// notCompiled is the outcome of a change that does not compile. It is not counted.
	notCompiled
)

// try tests one change.
func try(ctx context.Context, o options, pkg string, m mutant) (outcome, error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return 0, fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, m.source(), 0o600); err != nil {
		return 0, fmt.Errorf("writing a changed file: %w", err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return 0, fmt.Errorf("writing an overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return 0, fmt.Errorf("writing an overlay: %w", err)
	}
	result, _, err := test(ctx, o, pkg, path)
	return result, err
}

// test runs the tests of a package.
func test(ctx context.Context, o options, pkg, overlay string) (result outcome, text string, err error) {
	args := []string{"test", "-failfast", "-vet=off", "-timeout", timeout.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = o.dir
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil:
		return passed, string(output), nil
	case errors.As(err, &exit) && strings.Contains(string(output), "[build failed]"):
		return notCompiled, string(output), nil
	case errors.As(err, &exit):
		return failed, string(output), nil
	default:
		return 0, "", fmt.Errorf("running the tests: %w", err)
	}
}

// explain adds the output of a program to its exit code.
func explain(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
