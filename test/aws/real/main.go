// Command real guards a run of the tests in a real AWS account, for `make e2e-aws REAL=1`.
//
//	real check       refuses to start unless the account, the region and a budget are named
//	                 and the credentials are those of the account; prints the id of a run
//	real sweep RUN   deletes everything that a run has left in the account
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/appthrust/capt/test/aws/account"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-aws:", err)
		os.Exit(1)
	}
}

// sweepTimeout is how long a sweep may take.
const sweepTimeout = time.Hour

func run(ctx context.Context, args []string, getenv func(string) string, out, messages io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "check":
		limits, err := account.ReadLimits(getenv)
		if err != nil {
			return err
		}
		a, err := account.Open(ctx, limits.Region)
		if err != nil {
			return err
		}
		if err := a.Check(ctx, limits, time.Now()); err != nil {
			return err
		}
		id := strings.ToLower(rand.Text()[:8])
		fmt.Fprintf(messages, "Run %s creates the cluster %s in account %s, region %s.\n", id, account.Run{ID: id}.Cluster(), limits.Account, limits.Region)
		fmt.Fprintf(messages, "It costs up to %.2f USD: after %s it deletes what it created.\n", limits.Budget, limits.Work())
		fmt.Fprintf(messages, "If this machine fails, sweep it: make e2e-aws-sweep RUN=%s ACCOUNT=%s REGION=%s\n", id, limits.Account, limits.Region)
		_, err = fmt.Fprintln(out, id)
		return err
	case len(args) == 2 && args[0] == "sweep":
		// Neither the budget nor the lifetime of the credentials may prevent it.
		place, err := account.ReadPlace(getenv)
		if err != nil {
			return fmt.Errorf("nothing was deleted: %w", err)
		}
		a, err := account.Open(ctx, place.Region)
		if err != nil {
			return err
		}
		if err := a.CheckAccount(ctx, place); err != nil {
			return fmt.Errorf("nothing was deleted: %w", err)
		}
		return sweep(ctx, a, args[1], messages)
	default:
		return errors.New("usage: real check | real sweep RUN")
	}
}

func sweep(ctx context.Context, a *account.Account, id string, messages io.Writer) error {
	run, err := account.ParseRun(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	report := func(format string, args ...any) { fmt.Fprintf(messages, format+"\n", args...) }
	left, err := a.Sweep(ctx, run, 0, report)
	if err != nil {
		return fmt.Errorf("%w; left: %s", err, strings.Join(left, ", "))
	}
	report("Nothing of run %s is left in the account.", id)
	return nil
}
