package terraform

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Severity is how bad a diagnostic is.
type Severity string

// What keeps a command from succeeding, and what does not.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one message of the tool.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail,omitempty"`
	// Address is the resource it is about.
	Address string `json:"address,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Diagnostics are the messages of a run, in order.
type Diagnostics []Diagnostic

// What Short keeps of diagnostics, so that they fit a condition's message.
const (
	shortCount = 3
	shortChars = 500
)

// Errors returns those that are errors.
func (ds Diagnostics) Errors() Diagnostics {
	var errs Diagnostics
	for _, d := range ds {
		if d.Severity == SeverityError {
			errs = append(errs, d)
		}
	}
	return errs
}

// HasErrors reports whether any is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// Short renders the first few diagnostics, errors before warnings, a line each.
func (ds Diagnostics) Short() string {
	picked := ds.Errors()
	if len(picked) == 0 {
		picked = ds
	}
	shown := picked[:min(len(picked), shortCount)]
	budget := shortChars
	if rest := len(picked) - len(shown); rest > 0 {
		budget -= len("… and 9999 more")
	}
	var lines []string
	for i, d := range shown {
		line := truncate(d.String(), budget/(len(shown)-i))
		budget -= len(line) + 1
		lines = append(lines, line)
	}
	if rest := len(picked) - len(shown); rest > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", rest))
	}
	return strings.Join(lines, "\n")
}

// String renders the diagnostic in a line: where it is, what it is.
func (d Diagnostic) String() string {
	var b strings.Builder
	switch {
	case d.File != "" && d.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", d.File, d.Line)
	case d.File != "":
		fmt.Fprintf(&b, "%s: ", d.File)
	case d.Address != "":
		fmt.Fprintf(&b, "%s: ", d.Address)
	}
	b.WriteString(oneLine(d.Summary))
	if detail := oneLine(d.Detail); detail != "" {
		b.WriteString(": ")
		b.WriteString(detail)
	}
	return b.String()
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// truncate cuts s to at most limit bytes, at the end of a rune.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := max(limit-len(mark), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
