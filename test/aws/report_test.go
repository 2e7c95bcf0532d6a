package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/appthrust/capt/internal/testenv"
)

// outcome is the result of a case in out/e2e-aws.json.
type outcome struct {
	Case    string  `json:"case"`
	Result  string  `json:"result"`
	Seconds float64 `json:"seconds"`
	Steps   []step  `json:"steps,omitempty"`
}

// step is a part of a case.
type step struct {
	Name    string  `json:"step"`
	Seconds float64 `json:"seconds"`
}

// progress reports the steps of one case while it runs, and its result at its end.
type progress struct {
	t           *testing.T
	begun, last time.Time
	steps       []step
}

// reports has the running cases by their names.
var reports struct {
	sync.Mutex

	cases map[string]*progress
}

// progressOf returns the progress of a case, which begins with the first call.
func progressOf(t *testing.T) *progress {
	t.Helper()
	reports.Lock()
	defer reports.Unlock()
	if p := reports.cases[t.Name()]; p != nil {
		return p
	}
	now := time.Now()
	p := &progress{t: t, begun: now, last: now}
	if reports.cases == nil {
		reports.cases = map[string]*progress{}
	}
	reports.cases[t.Name()] = p
	t.Cleanup(p.end)
	return p
}

// done reports a step that has ended. It began with the end of the step before.
func (p *progress) done(format string, args ...any) {
	p.t.Helper()
	now := time.Now()
	s := step{Name: fmt.Sprintf(format, args...), Seconds: rounded(now.Sub(p.last))}
	p.last = now
	p.steps = append(p.steps, s)
	p.t.Logf("%s: %s (%s since the start)", s.Name, time.Duration(s.Seconds*float64(time.Second)).Round(time.Second), now.Sub(p.begun).Round(time.Second))
}

// end records the result.
func (p *progress) end() {
	o := outcome{Case: p.t.Name(), Result: "pass", Seconds: rounded(time.Since(p.begun)), Steps: p.steps}
	switch {
	case p.t.Failed():
		o.Result = "fail"
	case p.t.Skipped():
		o.Result = "skip"
	}
	root, err := testenv.Root()
	if err == nil {
		reports.Lock()
		defer reports.Unlock()
		delete(reports.cases, o.Case)
		err = record(filepath.Join(root, "out", "e2e-aws.json"), o)
	}
	if err != nil {
		p.t.Logf("Recording the result: %v", err)
	}
}

func rounded(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

// record writes the result of a case to a file, and keeps those of other cases. So a run
// that is stopped leaves the results so far.
func record(file string, o outcome) error {
	var all []outcome
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	all = slices.DeleteFunc(all, func(other outcome) bool { return other.Case == o.Case })
	text, err = json.MarshalIndent(append(all, o), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating the directory of results: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
