// Command chaos injects faults into CAPT and checks that no resource is lost. It
// starts a management cluster as processes and runs schedules that are generated
// from seeds: workspaces are created, changed, approved, paused, deleted and
// retained while processes are killed. Then it compares the events that happened
// with Terraform's state and with the requests. It writes a report as JSON, and
// exits with 1 after a violation, or with 2 if the test itself failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/local/environment"
)

// options are the flags.
type options struct {
	out       string
	seed      uint64
	schedules int
	// load is the number of busy loops that run all the time.
	load int
	form form
}

// parallel is how many schedules share the environment at a time.
func (o options) parallel() int {
	if o.form.executor == executorJob {
		return 2
	}
	return 4
}

// errViolations means that the program worked and found violations.
var errViolations = errors.New("violations were found")

// Exit codes.
const (
	exitViolations = 1
	exitFailure    = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, unless it follows immediately: a
	// terminal and a parent process may both send one.
	context.AfterFunc(ctx, func() {
		time.Sleep(2 * time.Second)
		stop()
	})
	err := run(ctx)
	switch {
	case err == nil:
	case errors.Is(err, errViolations):
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitViolations)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitFailure)
	}
}

func parseFlags() (options, error) {
	var o options
	flag.StringVar(&o.out, "out", filepath.Join("out", "chaos.json"), "File to write the report to.")
	flag.Uint64Var(&o.seed, "seed", 1, "Seed of the first schedule. It is incremented for each further one.")
	flag.IntVar(&o.schedules, "schedules", 12, "Number of schedules.")
	flag.IntVar(&o.load, "load", 0, "Number of busy loops that run all the time.")
	flag.StringVar(&o.form.executor, "executor", executorProcess, "Executor of the runs: process or job (requires root, containerd, runc and the CNI plugins).")
	flag.StringVar(&o.form.backend, "backend", backendKubernetes, "Backend of the states: kubernetes, http or s3 (requires AWS_ENDPOINT_URL with the address of an S3 server that accepts any credentials).")
	flag.Parse()
	switch {
	case o.form.executor != executorProcess && o.form.executor != executorJob:
		return o, fmt.Errorf("executor %q is unknown: use process or job", o.form.executor)
	case o.schedules < 1:
		return o, errors.New("set --schedules to at least 1")
	}
	return o, nil
}

// discardLogs discards the errors of clients whose API server was killed.
func discardLogs() error {
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	if err := errors.Join(logs.Set("logtostderr", "false"), logs.Set("stderrthreshold", "FATAL")); err != nil {
		return fmt.Errorf("setting up logs: %w", err)
	}
	klog.SetOutput(io.Discard)
	ctrl.SetLogger(klog.Background())
	return nil
}

func run(ctx context.Context) error {
	o, err := parseFlags()
	if err != nil {
		return err
	}
	if err := discardLogs(); err != nil {
		return err
	}
	if o.load > 0 {
		stop, err := startLoops(ctx, o.load)
		if err != nil {
			return err
		}
		defer stop()
	}
	start := time.Now()
	logf("Seed %d, executor %s, backend %s: starting the environment", o.seed, o.form.executor, o.form.backend)
	w, err := newHarness(ctx, o)
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.down(ctx))
		}
		return err
	}
	logf("The environment is running after %s: %s. If this program is killed, remove it with: %s", time.Since(start).Round(time.Second), w.dir(), w.removal())
	r := newReport(o)
	if err = runRounds(ctx, w, o, r); err == nil {
		err = r.missing(w.disk() != "")
	}
	r.Seconds = time.Since(start).Seconds()
	if err != nil {
		r.Errors = append(r.Errors, err.Error())
	}
	err = errors.Join(err, r.write(o.out), w.finish(ctx, r.Violations > 0 || err != nil))
	r.print()
	if r.Violations > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d; replay one with make chaos EXECUTOR=%s BACKEND=%s SEED=%d SCHEDULES=1",
			errViolations, r.Violations, o.form.executor, o.form.backend, r.Details[0].Seed))
	}
	return err
}

// finish removes the environment, or keeps it after a failure. An interrupt always removes it.
func (w *harness) finish(ctx context.Context, failed bool) error {
	if ctx.Err() != nil {
		logf("Interrupted: removing the environment. If this is interrupted too, remove it with: %s", w.removal())
		return w.down(ctx)
	}
	if failed {
		return errors.Join(w.stopSecond(), w.keep())
	}
	return w.down(ctx)
}

// runRounds runs all schedules, some at a time.
func runRounds(ctx context.Context, w *harness, o options, r *report) error {
	for first := 0; first < o.schedules; first += o.parallel() {
		var trials []*trial
		g := &guard{}
		for i := first; i < min(first+o.parallel(), o.schedules); i++ {
			trials = append(trials, newTrial(w, g, o.seed+uint64(i)))
		}
		err := runRound(ctx, w, g, trials)
		for i, t := range trials {
			r.add(t)
			logf("Schedule %d of %d (seed %d): %s", first+i+1, o.schedules, t.schedule.Seed, t.summary())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runRound runs schedules side by side, waits until their workspaces settle, checks
// them, restarts the manager, and deletes all workspaces.
func runRound(ctx context.Context, w *harness, g *guard, trials []*trial) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go g.watch(watching, w)
	for _, t := range trials {
		if err := w.prepare(ctx, t.namespace); err != nil {
			return err
		}
	}
	all := func(do func(*trial)) {
		var group sync.WaitGroup
		for _, t := range trials {
			group.Go(func() { do(t) })
		}
		group.Wait()
	}
	all(func(t *trial) { t.act(ctx) })
	if err := w.up(ctx); err != nil {
		return err
	}
	all(func(t *trial) { t.settle(ctx) })
	if err := restart(ctx, w, trials); err != nil {
		return err
	}
	all(func(t *trial) { t.finish(ctx) })
	return ctx.Err()
}

// restart kills the manager while all workspaces are settled, and checks that this
// starts no run. A new workspace shows that the next manager works.
func restart(ctx context.Context, w *harness, trials []*trial) error {
	before := map[*trial]map[string]int64{}
	for _, t := range trials {
		runs, err := t.runs(ctx)
		if err != nil {
			return err
		}
		before[t] = runs
	}
	if err := w.killManagers(ctx); err != nil {
		return fmt.Errorf("restarting the manager: %w", err)
	}
	if err := w.up(ctx); err != nil {
		return err
	}
	probe := &actor{trial: trials[0], scenario: scenario{Name: "probe"}, exists: true, items: map[string]item{}}
	if err := probe.create(ctx); err != nil {
		return err
	}
	if err := probe.settle(ctx); err != nil && ctx.Err() == nil {
		trials[0].addViolation("probe", "did not settle: the restarted manager does not work: "+err.Error())
	}
	for _, t := range trials {
		t.compareRuns(ctx, before[t])
	}
	return probe.finish(ctx)
}

// killManagers kills all managers.
func (w *harness) killManagers(ctx context.Context) error {
	w.parts.Lock()
	defer w.parts.Unlock()
	return await(ctx, func(ctx context.Context) error {
		first, err := w.process(ctx, environment.Manager)
		if err != nil {
			return err
		}
		if other, err := w.second.target(); err == nil {
			_ = other.signal(syscall.SIGKILL)
		}
		return first.signal(syscall.SIGKILL)
	})
}

// logf prints progress.
func logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
