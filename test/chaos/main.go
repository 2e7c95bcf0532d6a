// Command chaos injects faults into CAPT and checks that no resource is lost. It
// starts a management cluster as processes and runs schedules that are generated
// from seeds: workspaces are created, changed, approved, paused, deleted and
// retained while processes are killed. Then it compares the events that happened
// with Terraform's state and with the requests. It writes a report as JSON, and
// exits with 1 after a violation.
package main

import (
	"context"
	"encoding/json"
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
)

// options are the flags.
type options struct {
	out       string
	seed      uint64
	schedules int
	// parallel is how many schedules share the environment at a time.
	parallel int
	keep     bool
	// backend is the backend of the states, s3 the address of an S3 server.
	backend, s3 string
}

// report is the content of the JSON file.
type report struct {
	Schedules  int      `json:"schedules"`
	Violations int      `json:"violations"`
	Executor   string   `json:"executor"`
	Backend    string   `json:"backend"`
	Seconds    float64  `json:"seconds"`
	Seeds      []uint64 `json:"seeds"`
	// Faults counts injected faults, Missed those whose process was not running.
	Faults     map[fault]int     `json:"faults"`
	FaultCount int               `json:"faultCount"`
	Missed     map[fault]int     `json:"missedFaults"`
	Operations map[operation]int `json:"operations"`
	Resources  tally             `json:"resources"`
	// ForcedUnlocks is how often the user had to force an unlock.
	ForcedUnlocks int `json:"forcedUnlocks"`
	// SlowestSettle is the longest time that workspaces took to settle, in seconds.
	SlowestSettle float64     `json:"slowestSettleSeconds"`
	Details       []violation `json:"details"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// Errors of clients whose API server was killed are expected.
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	if err := errors.Join(logs.Set("logtostderr", "false"), logs.Set("stderrthreshold", "FATAL")); err != nil {
		return fmt.Errorf("setting up logs: %w", err)
	}
	klog.SetOutput(io.Discard)
	ctrl.SetLogger(klog.Background())
	var o options
	flag.StringVar(&o.out, "out", filepath.Join("out", "chaos.json"), "File to write the report to.")
	flag.Uint64Var(&o.seed, "seed", 1, "Seed of the first schedule. It is incremented for each further one.")
	flag.IntVar(&o.schedules, "schedules", 12, "Number of schedules.")
	flag.IntVar(&o.parallel, "at-once", 4, "Number of schedules that share the environment at a time.")
	flag.BoolVar(&o.keep, "keep", false, "Keep the environment. It is always kept after a violation or an error.")
	flag.StringVar(&o.backend, "backend", "kubernetes", "Backend of the states: kubernetes, http or s3.")
	flag.StringVar(&o.s3, "s3", os.Getenv("AWS_ENDPOINT_URL"), "Address of an S3 server that accepts any credentials.")
	flag.Parse()
	if o.schedules < 1 || o.parallel < 1 {
		return errors.New("set --schedules and --at-once to at least 1")
	}
	start := time.Now()
	logf("Starting the environment")
	w, err := newHarness(ctx, o)
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.down(ctx))
		}
		return err
	}
	logf("The environment is running after %s: %s", time.Since(start).Round(time.Second), w.env.Dir)
	r := newReport()
	r.Executor, r.Backend = "process", o.backend
	err = runRounds(ctx, w, o, r)
	r.Seconds = time.Since(start).Seconds()
	failed := r.Violations > 0 || err != nil && ctx.Err() == nil
	if ctx.Err() != nil {
		logf("Interrupted: removing the environment. If this is interrupted too, remove it with %s down %s --dir %s", w.captctl, w.env.Name, w.base)
	}
	if writeErr := write(o.out, r); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	if o.keep || failed {
		logf("The environment is kept: remove it with %s down %s --dir %s", w.captctl, w.env.Name, w.base)
	} else {
		err = errors.Join(err, w.down(ctx))
	}
	printReport(r)
	if r.Violations > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations; replay one with make chaos BACKEND=%s SEED=%d SCHEDULES=1", r.Violations, o.backend, r.Details[0].Seed))
	}
	return err
}

// runRounds runs all schedules, some at a time.
func runRounds(ctx context.Context, w *harness, o options, r *report) error {
	for first := 0; first < o.schedules; first += o.parallel {
		var trials []*trial
		g := &guard{}
		for i := first; i < min(first+o.parallel, o.schedules); i++ {
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
	if err := trials[0].injectPart(ctx, injection{Fault: killManager}); err != nil {
		return fmt.Errorf("restarting the manager: %w", err)
	}
	if err := w.up(ctx); err != nil {
		return err
	}
	probe := &actor{trial: trials[0], scenario: scenario{Name: "probe"}, exists: true, items: map[string]item{}}
	if err := probe.create(ctx); err != nil {
		return err
	}
	if err := probe.settle(ctx); err != nil {
		trials[0].addViolation("probe", "the restarted manager does not work: "+err.Error())
	}
	for _, t := range trials {
		t.compareRuns(ctx, before[t])
	}
	return probe.finish(ctx)
}

func newReport() *report {
	return &report{Faults: map[fault]int{}, Missed: map[fault]int{}, Operations: map[operation]int{}, Details: []violation{}}
}

func (r *report) add(t *trial) {
	r.Schedules++
	r.Seeds = append(r.Seeds, t.schedule.Seed)
	for f, n := range t.faults {
		r.Faults[f] += n
		r.FaultCount += n
	}
	for f, n := range t.missed {
		r.Missed[f] += n
	}
	for o, n := range t.operations {
		r.Operations[o] += n
	}
	r.Resources.add(t.tally)
	r.ForcedUnlocks += t.unlocks
	r.SlowestSettle = max(r.SlowestSettle, t.settled.Seconds())
	r.Details = append(r.Details, t.violations...)
	r.Violations = len(r.Details)
}

func (t *trial) summary() string {
	operations, faults := 0, 0
	for _, n := range t.operations {
		operations += n
	}
	for _, n := range t.faults {
		faults += n
	}
	text := fmt.Sprintf("%d operations, %d faults, %d created, %d destroyed, %d interrupted, settled in %s",
		operations, faults, t.tally.Created, t.tally.Destroyed, t.tally.Interrupted, t.settled.Round(100*time.Millisecond))
	if len(t.violations) == 0 {
		return text + ": no violations"
	}
	for _, v := range t.violations {
		text += fmt.Sprintf("\n  VIOLATION %s: %s", v.Workspace, v.Text)
	}
	return text
}

func write(path string, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func printReport(r *report) {
	logf("%d schedules, %d faults, %d resources created, %d destroyed, %d creates interrupted by a kill, %d forced unlocks, settled in at most %.1fs, %.0fs in total: %d violations",
		r.Schedules, r.FaultCount, r.Resources.Created, r.Resources.Destroyed, r.Resources.Interrupted, r.ForcedUnlocks, r.SlowestSettle, r.Seconds, r.Violations)
}

// logf prints progress.
func logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
