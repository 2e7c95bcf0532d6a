// Command bench compares CAPT with the plain tool: the engine, with small modules and with
// those of the AWS provider, and a run as a Job. It runs the real manager, OpenTofu, API
// server and kubelet, prints a table of ratios and writes the numbers as JSON. It asserts
// nothing. test/fleet measures a restart and the idle manager.
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
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// report is the JSON output.
type report struct {
	Engine    *engineReport `json:"engine,omitempty"`
	EngineAWS *engineReport `json:"engineAWS,omitempty"`
	Job       *jobReport    `json:"job,omitempty"`
	// Failed are the reasons why parts have no numbers.
	Failed map[string]string `json:"failed,omitempty"`
}

// Targets of the table.
const (
	targetRatio = 1.15
	targetJob   = 1.30
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	out := flag.String("out", filepath.Join("out", "bench.json"), "File that receives the numbers.")
	part := flag.String("part", "all", "What to measure: engine, engineAWS, job or all.")
	flag.Parse()
	return measure(ctx, *out, *part, &report{}, []measurement{
		{"engine", func(ctx context.Context, r *report) (err error) {
			r.Engine, err = measureEngine(ctx, workload{name: "engine", applies: 40, module: small})
			return err
		}},
		{"engineAWS", func(ctx context.Context, r *report) (err error) { r.EngineAWS, err = measureAWS(ctx); return err }},
		{"job", func(ctx context.Context, r *report) (err error) { r.Job, err = measureJob(ctx); return err }},
	})
}

// measurement is a part of the benchmark. It sets its numbers in the report only if it
// succeeds.
type measurement struct {
	name string
	run  func(ctx context.Context, r *report) error
}

// measure runs the part with a name, or all, and prints the table. It writes the numbers
// after each part, and continues after a failure, which it returns at the end.
func measure(ctx context.Context, out, part string, r *report, parts []measurement) error {
	var failures []error
	var known []string
	for _, m := range parts {
		known = append(known, m.name)
		if part != "all" && part != m.name || ctx.Err() != nil {
			continue
		}
		if err := m.run(ctx, r); err != nil {
			err = fmt.Errorf("measuring %s: %w", m.name, err)
			logf("%v", err)
			failures = append(failures, err)
			if r.Failed == nil {
				r.Failed = map[string]string{}
			}
			r.Failed[m.name] = err.Error()
		}
		if err := write(out, r); err != nil {
			return err
		}
	}
	if part != "all" && !slices.Contains(known, part) {
		return fmt.Errorf("unknown part %q: use all, %s", part, strings.Join(known, ", "))
	}
	return errors.Join(append(failures, show(r), ctx.Err())...)
}

func write(path string, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the numbers: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the numbers: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the numbers: %w", err)
	}
	return nil
}

// show prints the results next to the values that they are compared with.
func show(r *report) error {
	var b strings.Builder
	b.WriteString("\nMEASURED\tCAPT\tCOMPARED WITH\t\tRATIO\n")
	if e := r.Engine; e != nil {
		e.show(&b, "Small modules", targetRatio)
	}
	if e := r.EngineAWS; e != nil {
		e.show(&b, "Modules of the AWS provider", targetRatio)
	}
	if j := r.Job; j != nil {
		j.show(&b)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if e := r.Engine; e != nil {
		e.showDetails("Small modules")
	}
	if e := r.EngineAWS; e != nil {
		e.showDetails("Modules of the AWS provider")
	}
	return nil
}

// logf prints progress.
func logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
