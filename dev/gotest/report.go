package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
	"time"
)

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// name identifies a test, or a package if the test is empty.
type name struct{ pkg, test string }

// report is what is known about the tests of one go test.
type report struct {
	out     io.Writer
	verbose bool
	now     func() time.Time
	began   time.Time
	// running are the tests that have begun and not ended, output what they and their
	// packages have printed.
	running map[name]time.Time
	output  map[name][]string
	skipped []name

	packages, passed, failed int
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{
		out: out, verbose: verbose, now: time.Now, began: time.Now(),
		running: map[name]time.Time{}, output: map[name][]string{},
	}
}

// read reports the events of in until it ends. At each tick it prints what is running.
func (r *report) read(in io.Reader, ticks <-chan time.Time) error {
	lines, done := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		reader := bufio.NewReader(in)
		for {
			line, err := reader.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				if err != io.EOF {
					done <- fmt.Errorf("reading the events of go test: %w", err)
				}
				close(done)
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return <-done
			}
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(r.out, string(line)) // For example an error of go itself.
				continue
			}
			r.add(e)
		case <-ticks:
			r.progress()
		}
	}
}

func (r *report) add(e event) {
	id := name{pkg: e.Package, test: e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "run", "cont":
		r.running[id] = r.now()
	case "pause": // It waits for its turn among parallel tests.
		delete(r.running, id)
	case "output":
		if r.verbose {
			fmt.Fprint(r.out, e.Output)
			return
		}
		r.output[id] = append(r.output[id], e.Output)
	case "pass", "fail", "skip":
		delete(r.running, id)
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		r.endTest(e.Action, id)
	}
}

func (r *report) endTest(action string, id name) {
	switch action {
	case "pass":
		r.passed++
		delete(r.output, id)
	case "fail":
		r.failed++ // Its output is printed with its package's.
	case "skip":
		r.skipped = append(r.skipped, id)
	}
}

// endPackage prints the result of a package and, if it failed, the output of all its tests
// that did not pass: those that were running when the program ended are among them.
func (r *report) endPackage(e event) {
	r.packages++
	var ids []name
	for id := range r.output {
		if id.pkg == e.Package && id.test != "" {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i].test < ids[j].test })
	skipped := map[name]bool{}
	for _, id := range r.skipped {
		skipped[id] = true
	}
	for _, id := range ids {
		if e.Action == "fail" && !skipped[id] {
			fmt.Fprint(r.out, strings.Join(r.output[id], ""))
		}
		if !skipped[id] {
			delete(r.output, id)
		}
	}
	own := name{pkg: e.Package}
	for _, line := range r.output[own] {
		if e.Action == "fail" || strings.HasPrefix(line, "ok ") {
			fmt.Fprint(r.out, line)
		}
	}
	delete(r.output, own)
	for id := range r.running {
		if id.pkg == e.Package {
			delete(r.running, id)
			r.failed++
		}
	}
}

// progress prints the tests that have been running for the longest time.
func (r *report) progress() {
	type entry struct {
		id    name
		since time.Time
	}
	var entries []entry
	for id, since := range r.running {
		if !strings.Contains(id.test, "/") {
			entries = append(entries, entry{id, since})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].since.Before(entries[j].since) })
	const most = 4
	var texts []string
	for _, e := range entries[:min(most, len(entries))] {
		texts = append(texts, fmt.Sprintf("%s %s (%s)", path.Base(e.id.pkg), e.id.test, r.now().Sub(e.since).Round(time.Second)))
	}
	if len(texts) == 0 {
		texts = []string{"compiling"}
	}
	fmt.Fprintf(r.out, "... %s, %d packages done, running: %s\n", r.now().Sub(r.began).Round(time.Second), r.packages, strings.Join(texts, ", "))
}

// finish prints the skipped tests and the counts, and returns how many tests were skipped
// that are not allowed to be.
func (r *report) finish(allowed []skip) (unlisted int) {
	reasons := map[string]int{}
	for _, id := range r.skipped {
		reason, ok := reasonFor(allowed, id)
		if ok {
			reasons[reason]++
			continue
		}
		unlisted++
		fmt.Fprintf(r.out, "SKIPPED %s %s\n%s", id.pkg, id.test, strings.Join(r.output[id], ""))
	}
	var lines []string
	for reason, n := range reasons {
		lines = append(lines, fmt.Sprintf("%d skipped: %s\n", n, reason))
	}
	sort.Strings(lines)
	fmt.Fprint(r.out, strings.Join(lines, ""))
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
	return unlisted
}
