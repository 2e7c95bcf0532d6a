// Command chaos has everything go wrong with CAPT that can, and checks that
// nothing is lost. It brings up a management cluster as processes, lives through
// schedules that follow from seeds (workspaces are made, changed, approved,
// paused, deleted and left in place while processes are killed), and then
// compares what really happened with the state of Terraform and with what was
// asked for. The numbers are written as JSON; a violation ends it with 1.
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

// options is how much happens.
type options struct {
	out       string
	seed      uint64
	schedules int
	// atOnce is how many schedules share the environment at a time.
	atOnce int
	keep   bool
}

// report is what is written as JSON.
type report struct {
	Schedules  int      `json:"schedules"`
	Violations int      `json:"violations"`
	Seconds    float64  `json:"seconds"`
	Seeds      []uint64 `json:"seeds"`
	// Faults are those that hit something, Missed those that found nothing.
	Faults     map[fault]int     `json:"faults"`
	FaultCount int               `json:"faultCount"`
	Missed     map[fault]int     `json:"missedFaults"`
	Operations map[operation]int `json:"operations"`
	Resources  tally             `json:"resources"`
	// ForcedUnlocks is how often a user had to break a lock.
	ForcedUnlocks int `json:"forcedUnlocks"`
	// SlowestSettle is how long everything took to settle at most, in seconds.
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
	// A client that complains of an API server which was killed tells nothing new.
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	if err := errors.Join(logs.Set("logtostderr", "false"), logs.Set("stderrthreshold", "FATAL")); err != nil {
		return fmt.Errorf("setting up logs: %w", err)
	}
	klog.SetOutput(io.Discard)
	ctrl.SetLogger(klog.Background())
	var o options
	flag.StringVar(&o.out, "out", filepath.Join("out", "chaos.json"), "File that receives the numbers.")
	flag.Uint64Var(&o.seed, "seed", 1, "Seed of the first schedule; each further one has the next.")
	flag.IntVar(&o.schedules, "schedules", 12, "Number of schedules.")
	flag.IntVar(&o.atOnce, "at-once", 4, "Schedules that share the environment at a time.")
	flag.BoolVar(&o.keep, "keep", false, "Leave the environment for a look; it also stays when something is wrong.")
	flag.Parse()
	if o.schedules < 1 || o.atOnce < 1 {
		return errors.New("name at least one schedule, and at least one at a time")
	}
	began := time.Now()
	say("bringing up the environment")
	w, err := newHarness(ctx)
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.down(ctx))
		}
		return err
	}
	say("it is up after %s: %s", time.Since(began).Round(time.Second), w.env.Dir)
	r := newReport()
	err = rounds(ctx, w, o, r)
	r.Seconds = time.Since(began).Seconds()
	failed := r.Violations > 0 || err != nil && ctx.Err() == nil
	if writeErr := write(o.out, r); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	if o.keep || failed {
		say("the environment is left: remove it with %s down %s --dir %s", w.captctl, w.env.Name, w.base)
	} else {
		err = errors.Join(err, w.down(ctx))
	}
	show(r)
	if r.Violations > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations; replay one with make chaos SEED=%d SCHEDULES=1", r.Violations, r.Details[0].Seed))
	}
	return err
}

// rounds goes through all schedules, some at a time.
func rounds(ctx context.Context, w *harness, o options, r *report) error {
	for first := 0; first < o.schedules; first += o.atOnce {
		var trials []*trial
		g := &guard{}
		for i := first; i < min(first+o.atOnce, o.schedules); i++ {
			trials = append(trials, newTrial(w, g, o.seed+uint64(i)))
		}
		if err := round(ctx, w, g, trials); err != nil {
			return err
		}
		for i, t := range trials {
			r.add(t)
			say("schedule %d of %d (seed %d): %s", first+i+1, o.schedules, t.schedule.Seed, t.summary())
		}
	}
	return nil
}

// round has schedules happen side by side, then lets everything settle, checks
// it, restarts the manager, and deletes everything.
func round(ctx context.Context, w *harness, g *guard, trials []*trial) error {
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

// restart kills the manager while nothing is to be done: that starts no run. A
// workspace that is new shows that the next manager is at work.
func restart(ctx context.Context, w *harness, trials []*trial) error {
	before := map[*trial]map[string]int64{}
	for _, t := range trials {
		runs, err := t.runs(ctx)
		if err != nil {
			return err
		}
		before[t] = runs
	}
	if err := trials[0].harmPart(ctx, mishap{Fault: killManager}); err != nil {
		return fmt.Errorf("restarting the manager: %w", err)
	}
	if err := w.up(ctx); err != nil {
		return err
	}
	probe := &actor{trial: trials[0], story: story{Name: "probe"}, exists: true, items: map[string]item{}}
	if err := probe.create(ctx); err != nil {
		return err
	}
	if err := probe.settle(ctx); err != nil {
		trials[0].violate("probe", "a new manager does not work: "+err.Error())
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
	r.ForcedUnlocks += t.helped
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
	text := fmt.Sprintf("%d operations, %d faults, %d made, %d destroyed, %d interrupted, settled in %s",
		operations, faults, t.tally.Made, t.tally.Destroyed, t.tally.Interrupted, t.settled.Round(100*time.Millisecond))
	if len(t.violations) == 0 {
		return text + ": nothing is lost"
	}
	for _, v := range t.violations {
		text += fmt.Sprintf("\n  VIOLATION %s: %s", v.Workspace, v.Text)
	}
	return text
}

func write(path string, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the numbers: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory of the numbers: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the numbers: %w", err)
	}
	return nil
}

func show(r *report) {
	say("%d schedules, %d faults, %d resources made, %d destroyed, %d creates interrupted by a kill, %d locks broken by hand, settled in %.1fs at most, %.0fs in all: %d violations",
		r.Schedules, r.FaultCount, r.Resources.Made, r.Resources.Destroyed, r.Resources.Interrupted, r.ForcedUnlocks, r.SlowestSettle, r.Seconds, r.Violations)
}

// say prints progress.
func say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
