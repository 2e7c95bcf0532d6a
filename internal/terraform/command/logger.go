package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

// runLog writes the human-readable log of a run: a timestamp and a message per
// line, with the request's secrets masked. The tool does not print values that
// it knows to be sensitive.
type runLog struct {
	out      io.Writer
	redactor *terraform.Redactor
}

func newRunLog(out io.Writer, redactor *terraform.Redactor) *runLog {
	if out == nil {
		out = io.Discard
	}
	return &runLog{out: out, redactor: redactor}
}

func (l *runLog) print(at time.Time, message string) {
	if at.IsZero() {
		at = time.Now()
	}
	stamp := at.UTC().Format("2006-01-02T15:04:05.000Z")
	for line := range strings.Lines(l.redact(message)) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			// A failure to write the log must not stop an apply.
			_, _ = fmt.Fprintf(l.out, "%s %s\n", stamp, line)
		}
	}
}

func (l *runLog) event(event events.Event) {
	if event.Type != events.TypeDiagnostic || event.Diagnostic == nil {
		l.print(event.Time, event.Message)
		return
	}
	diagnostic := event.Diagnostic.Convert()
	prefix := "Error: "
	if diagnostic.Severity == terraform.SeverityWarning {
		prefix = "Warning: "
	}
	l.print(event.Time, prefix+diagnostic.String())
}

// redact masks the secrets in text and makes it valid UTF-8.
func (l *runLog) redact(text string) string {
	return l.redactor.Replace(events.Clean(text))
}

// redactAll masks the secrets in the diagnostics, in place.
func (l *runLog) redactAll(diagnostics terraform.Diagnostics) terraform.Diagnostics {
	for i := range diagnostics {
		diagnostics[i].Summary = l.redact(diagnostics[i].Summary)
		diagnostics[i].Detail = l.redact(diagnostics[i].Detail)
	}
	return diagnostics
}
