// Command gotest runs go test and reports while it runs: a line for each package as soon
// as it ends, and every half minute the tests that are running. It shows the output of
// failed tests only. A skipped test is a failure unless a file lists it with a reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	// interval is how long nothing may be printed.
	interval = 30 * time.Second
	// stopTime is how long an interrupted go test may take to end.
	stopTime = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gotest", flag.ContinueOnError)
	dir := flags.String("dir", ".", "module in which go test runs")
	list := flags.String("skips", "", "file that lists the tests that may be skipped")
	if err := flags.Parse(args); err != nil {
		return err
	}
	allowed, err := readSkips(*list)
	if err != nil {
		return err
	}
	r := newReport(os.Stdout, slices.Contains(flags.Args(), "-v"))
	testErr := goTest(ctx, *dir, flags.Args(), r)
	unlisted := r.finish(allowed)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case testErr != nil:
		return fmt.Errorf("go test: %w", testErr)
	case unlisted > 0:
		return fmt.Errorf("%d tests were skipped that %s does not list", unlisted, *list)
	}
	return nil
}

// goTest runs go test and passes its events to the report.
func goTest(ctx context.Context, dir string, args []string, r *report) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	// go does not pass a signal on to the tests.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopTime
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("connecting to go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	readErr := r.read(out, time.NewTicker(interval).C)
	return errors.Join(cmd.Wait(), readErr)
}
