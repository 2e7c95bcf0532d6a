package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const module = `module example.com/sample

go 1.26
`

// write creates a module whose tests have the given bodies.
func write(t *testing.T, tests string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for file, content := range map[string]string{
		"go.mod":         module,
		"sample_test.go": "package sample\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nvar _ = time.Now\n\n" + tests,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestGoTest_showsFailuresAndUnlistedSkips(t *testing.T) {
	dir := write(t, `
func TestQuiet(t *testing.T)   { t.Log("the log of a test that passes") }
func TestBroken(t *testing.T)  { t.Run("part", func(t *testing.T) { t.Error("the reason of the failure") }) }
func TestAllowed(t *testing.T) { t.Skip("needs root") }
func TestMissing(t *testing.T) { t.Skip("the tool is not installed") }
`)
	var out bytes.Buffer
	r := newReport(&out, false)
	if err := goTest(t.Context(), dir, []string{"./..."}, r); err == nil {
		t.Error("a failed test is not an error")
	}
	unlisted := r.finish([]skip{{pkg: "sample", test: "TestA*", reason: "root is not available"}})
	if unlisted != 1 {
		t.Errorf("%d tests were skipped without a reason, want 1", unlisted)
	}
	text := out.String()
	for _, want := range []string{
		"the reason of the failure", "FAIL\texample.com/sample", "1 skipped: root is not available",
		"SKIPPED example.com/sample TestMissing", "the tool is not installed", "1 passed, 2 failed, 2 skipped",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "that passes") {
		t.Errorf("the report shows the log of a test that passed:\n%s", text)
	}
}

func TestGoTest_showsTheOutputOfATestThatEndedTheProgram(t *testing.T) {
	dir := write(t, `
func TestPanics(t *testing.T) { panic("the end of the program") }
`)
	var out bytes.Buffer
	r := newReport(&out, false)
	if err := goTest(t.Context(), dir, []string{"./..."}, r); err == nil || !strings.Contains(out.String(), "the end of the program") {
		t.Errorf("got %v and:\n%s", err, &out)
	}
}

func TestGoTest_interruptsTheTests(t *testing.T) {
	dir := write(t, `
func TestSlow(t *testing.T) { time.Sleep(time.Hour) }
`)
	ctx, cancel := context.WithCancel(t.Context())
	r := newReport(io.Discard, false)
	began := time.Now()
	r.now = func() time.Time {
		if ctx.Err() == nil {
			began = time.Now() // The test has begun.
			cancel()
		}
		return time.Now()
	}
	if err := goTest(ctx, dir, []string{"./..."}, r); err == nil || time.Since(began) > stopTime {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

func TestGoTest_showsErrorsOfTheCompiler(t *testing.T) {
	dir := write(t, `func TestNothing(t *testing.T) { undefined() }`)
	var out bytes.Buffer
	if err := goTest(t.Context(), dir, []string{"./..."}, newReport(&out, false)); err == nil || !strings.Contains(out.String(), "undefined: undefined") {
		t.Errorf("got %v and:\n%s", err, &out)
	}
}

func TestProgress_namesTheTestsThatRun(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out, false)
	r.began = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return r.began.Add(time.Minute) }
	r.running[name{"example.com/a", "TestSlow"}] = r.began.Add(20 * time.Second)
	r.running[name{"example.com/a", "TestSlow/part"}] = r.began.Add(20 * time.Second)
	r.add(event{Action: "run", Package: "example.com/a", Test: "TestParallel"})
	r.add(event{Action: "pause", Package: "example.com/a", Test: "TestParallel"})
	r.progress()
	if want := "... 1m0s, 0 packages done, running: a TestSlow (40s)\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestReadSkips_wantsAReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(file, []byte("# comment\n\ntest/aws *\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSkips(file); err == nil || !strings.Contains(err.Error(), ":3: write PACKAGE TEST REASON") {
		t.Errorf("got %v", err)
	}
}
