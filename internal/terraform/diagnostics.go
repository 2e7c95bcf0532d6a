package terraform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/message"
)

// Severity is the severity of a diagnostic.
type Severity string

// The severities of a diagnostic. A command with an error fails.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is a message of OpenTofu or Terraform.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail,omitempty"`
	// Address is the resource that the diagnostic is about.
	Address string `json:"address,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Diagnostics are the diagnostics of a run, in order.
type Diagnostics []Diagnostic

// The limits of Short, which make its text fit a condition's message.
const (
	shortCount = 3
	shortBytes = 500
)

// Errors returns the diagnostics that are errors.
func (ds Diagnostics) Errors() Diagnostics {
	var errs Diagnostics
	for _, d := range ds {
		if d.Severity == SeverityError {
			errs = append(errs, d)
		}
	}
	return errs
}

// HasErrors reports whether any diagnostic is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// Short returns the first errors, one per line, or the first warnings if there
// are no errors.
func (ds Diagnostics) Short() string {
	selected := ds.Errors()
	if len(selected) == 0 {
		selected = ds
	}
	shown := selected[:min(len(selected), shortCount)]
	rest := len(selected) - len(shown)
	budget := shortBytes
	if rest > 0 {
		budget -= len("… and 9999 more")
	}
	var lines []string
	for i, d := range shown {
		line := message.Truncate(d.String(), budget/(len(shown)-i))
		budget -= len(line) + 1
		lines = append(lines, line)
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", rest))
	}
	return strings.Join(lines, "\n")
}

// String returns the position, summary and detail of the diagnostic in one line.
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
	b.WriteString(message.OneLine(d.Summary))
	if detail := message.OneLine(d.Detail); detail != "" {
		b.WriteString(": ")
		b.WriteString(detail)
	}
	return b.String()
}
