package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	// parallelism is the number of workspaces that are applied in parallel.
	parallelism = 2
	// rounds is how often CAPT and the plain tool alternate.
	rounds = 3
)

// engineReport compares the engine with the plain tool.
type engineReport struct {
	workload

	// Skipped is why nothing was measured.
	Skipped string `json:"skipped,omitempty"`
	// Ratio is the median of the ratios of the rounds, and RatioInterval has the lowest and the
	// highest of them.
	Ratio         float64   `json:"ratio,omitempty"`
	RatioInterval []float64 `json:"ratioInterval,omitempty"`
	CAPTSeconds   float64   `json:"captSeconds,omitempty"`
	BareSeconds   float64   `json:"bareSeconds,omitempty"`
	Applies       int       `json:"applies,omitempty"`
	Rounds        int       `json:"rounds,omitempty"`
	CAPTRounds    []float64 `json:"captRounds,omitempty"`
	BareRounds    []float64 `json:"bareRounds,omitempty"`
	// CAPTCPU and BareCPU are CPU seconds of a round, on average.
	CAPTCPU cpuTimes `json:"captCPU,omitzero"`
	BareCPU cpuTimes `json:"bareCPU,omitzero"`
	// CAPTRequests and BareRequests are requests to the API server per apply, on
	// average, by verb and resource.
	CAPTRequests requestRates `json:"captRequests,omitempty"`
	BareRequests requestRates `json:"bareRequests,omitempty"`
	// CAPTPeakMiB and BarePeakMiB are the most memory that the processes of one run had at
	// a time: the runner, the tool and its providers.
	CAPTPeakMiB float64 `json:"captPeakMiB,omitempty"`
	BarePeakMiB float64 `json:"barePeakMiB,omitempty"`
}

// workload is what the engine and the plain tool apply.
type workload struct {
	// name is the name of the measurement in the log.
	name    string
	applies int
	// module returns the module of a round. Each round has its own text, so that rounds
	// share no cache.
	module func(round int) string
	// env is the environment of the tool.
	env map[string]string
	// provider is installed for the tool, or nil.
	provider *benchProvider
}

// measureEngine measures CAPT and the plain tool alternately with the same module, API
// server and backend.
func measureEngine(ctx context.Context, w workload) (*engineReport, error) {
	logf("%s: starting the API server", w.name)
	env, err := testenv.Start()
	if err != nil {
		return nil, err
	}
	defer stopQuietly(env)
	h, err := newHarness(env)
	if err != nil {
		return nil, err
	}
	if w.provider != nil {
		if err := h.installProvider(*w.provider); err != nil {
			return nil, err
		}
	}
	m, err := h.startManager()
	if err != nil {
		return nil, err
	}
	defer m.stop()
	if err := m.waitSettled(ctx); err != nil {
		return nil, err
	}
	r := &engineReport{workload: w, Applies: w.applies, Rounds: rounds, CAPTRequests: requestRates{}, BareRequests: requestRates{}}
	if err := r.samplePeaks(ctx, h); err != nil {
		return nil, err
	}
	for round := range rounds {
		turns := []func() error{
			func() error {
				return h.account(ctx, &r.CAPTCPU, r.CAPTRequests, m.PID(), func() error { return r.capt(ctx, h, round) })
			},
			func() error {
				return h.account(ctx, &r.BareCPU, r.BareRequests, 0, func() error { return r.bare(ctx, h, round) })
			},
		}
		if round%2 == 1 {
			// Alternates the order, so that neither always runs second.
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return nil, err
			}
		}
	}
	r.CAPTCPU.divide(rounds)
	r.BareCPU.divide(rounds)
	r.CAPTRequests.divide(float64(rounds * w.applies))
	r.BareRequests.divide(float64(rounds * w.applies))
	r.CAPTSeconds, r.BareSeconds = median(r.CAPTRounds), median(r.BareRounds)
	r.Ratio, r.RatioInterval = compare(r.CAPTRounds, r.BareRounds)
	return r, nil
}

// show adds the results to the table.
func (r *engineReport) show(b *strings.Builder, what string, target float64) {
	if r.Skipped != "" {
		fmt.Fprintf(b, "%s\tnot measured: %s\t\t\t\n", what, r.Skipped)
		return
	}
	fmt.Fprintf(b, "%s, %d applies, %d at a time (median of %d)\t%.2fs\tbare tool\t%.2fs\t%.2f\n", what, r.Applies, parallelism, r.Rounds, r.CAPTSeconds, r.BareSeconds, r.Ratio)
	fmt.Fprintf(b, "  CPU seconds\t%.1f\tbare tool\t%.1f\t%.2f\n", r.CAPTCPU.total(), r.BareCPU.total(), r.CAPTCPU.total()/r.BareCPU.total())
	fmt.Fprintf(b, "  peak memory of a run\t%.0f MiB\tbare tool\t%.0f MiB\t%.2f\n", r.CAPTPeakMiB, r.BarePeakMiB, r.CAPTPeakMiB/r.BarePeakMiB)
	fmt.Fprintf(b, "  against the goal\t%.2f (%.2f to %.2f)\tat most\t%.2f\t%.2f\n", r.Ratio, r.RatioInterval[0], r.RatioInterval[1], target, r.Ratio/target)
}

// showDetails prints where the time goes.
func (r *engineReport) showDetails(what string) {
	if r.Skipped != "" {
		return
	}
	fmt.Printf("\n%s: CPU seconds of %d applies\n  CAPT: %s\n  bare: %s\n", what, r.Applies, r.CAPTCPU, r.BareCPU)
	fmt.Printf("API requests per apply\n  CAPT: %s\n  bare: %s\n", r.CAPTRequests, r.BareRequests)
}

// compare returns the median of the ratios of paired rounds, and the lowest and the highest.
func compare(capt, bare []float64) (ratio float64, interval []float64) {
	ratios := make([]float64, len(capt))
	for i := range capt {
		ratios[i] = capt[i] / bare[i]
	}
	return median(ratios), []float64{slices.Min(ratios), slices.Max(ratios)}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// samplePeaks measures the memory of runs in another round, because sampling delays them. It is
// the first one, in which the caches of the system and of the API server are cold.
func (r *engineReport) samplePeaks(ctx context.Context, h *harness) error {
	for _, turn := range []struct {
		apply func(context.Context, *harness, int) (float64, error)
		mib   *float64
	}{{r.applyCAPT, &r.CAPTPeakMiB}, {r.applyBare, &r.BarePeakMiB}} {
		memory := startPeak(h.env.Dir)
		_, err := turn.apply(ctx, h, r.Rounds)
		*turn.mib = memory.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// capt measures a round of the engine.
func (r *engineReport) capt(ctx context.Context, h *harness, round int) error {
	seconds, err := r.applyCAPT(ctx, h, round)
	if err != nil {
		return err
	}
	r.CAPTRounds = append(r.CAPTRounds, seconds)
	logf("%s: round %d, CAPT: %d applies in %.2fs", r.name, round+1, r.Applies, seconds)
	return nil
}

// bare measures a round of the plain tool.
func (r *engineReport) bare(ctx context.Context, h *harness, round int) error {
	seconds, err := r.applyBare(ctx, h, round)
	if err != nil {
		return err
	}
	r.BareRounds = append(r.BareRounds, seconds)
	logf("%s: round %d, bare: %d applies in %.2fs", r.name, round+1, r.Applies, seconds)
	return nil
}

// applyCAPT returns the time from the creation of the workspaces until all are ready.
func (r *engineReport) applyCAPT(ctx context.Context, h *harness, round int) (seconds float64, err error) {
	namespace, err := h.namespace(ctx)
	if err != nil {
		return 0, err
	}
	if err := h.createTemplate(ctx, namespace, r.module(round), r.env, nil); err != nil {
		return 0, err
	}
	return h.apply(ctx, namespace, r.Applies)
}

// applyBare returns the time of init and apply of the plain tool.
func (r *engineReport) applyBare(ctx context.Context, h *harness, round int) (seconds float64, err error) {
	namespace, err := h.namespace(ctx)
	if err != nil {
		return 0, err
	}
	dirs := make([]string, r.Applies)
	for i := range dirs {
		if dirs[i], err = h.writeBare(r.module(round), namespace, workspaceName(i)); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	err = forEach(ctx, len(dirs), parallelism, func(ctx context.Context, i int) error {
		return h.applyBare(ctx, dirs[i], workspaceName(i), r.env)
	})
	if err != nil {
		return 0, err
	}
	return time.Since(started).Seconds(), nil
}

// writeBare writes a module with the same backend as CAPT's, and returns its directory.
func (h *harness) writeBare(module, namespace, name string) (string, error) {
	dir := filepath.Join(h.env.Dir, "bare", namespace, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating a directory: %w", err)
	}
	text := module + backend(h.env.Kubeconfig, namespace, name)
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing a module: %w", err)
	}
	return dir, nil
}

// applyBare applies a module as a user would, with the setting of the garbage collector that
// CAPT gives the tool.
func (h *harness) applyBare(ctx context.Context, dir, name string, env map[string]string) error {
	for _, args := range [][]string{
		{"init", "-input=false", "-no-color"},
		{"apply", "-input=false", "-no-color", "-auto-approve"},
	} {
		cmd := exec.CommandContext(ctx, h.tofu, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+h.cliConfig, "TF_VAR_name="+name, "TF_IN_AUTOMATION=1", "GOGC=200")
		for key, value := range env {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("running tofu %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// small returns a module with one small resource.
func small(round int) string {
	return fmt.Sprintf(`# Round %d.
variable "name" { type = string }
resource "terraform_data" "this" { input = var.name }
output "name" { value = terraform_data.this.output }
`, round)
}

// backend returns the configuration of the same backend as CAPT's.
func backend(kubeconfig, namespace, name string) string {
	return fmt.Sprintf(`terraform {
  backend "kubernetes" {
    config_path   = %q
    namespace     = %q
    secret_suffix = %q
  }
}
`, kubeconfig, namespace, name+"-bare")
}
