package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

const masked = "(sensitive value)"

// runLog writes what happens for people to read: a timestamp and a message a
// line, with the secrets of the request masked. What the tool itself knows to
// be sensitive never gets here.
type runLog struct {
	out  io.Writer
	mask *strings.Replacer
}

func newRunLog(out io.Writer, secrets []string) *runLog {
	if out == nil {
		out = io.Discard
	}
	return &runLog{out: out, mask: replacer(secrets)}
}

// replacer masks secrets, and each line of a secret that has several.
func replacer(secrets []string) *strings.Replacer {
	const shortest = 8
	var pairs []string
	for _, secret := range secrets {
		for _, part := range append([]string{secret}, strings.Split(secret, "\n")...) {
			if part = strings.TrimSpace(part); len(part) >= shortest {
				pairs = append(pairs, part, masked)
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func (l *runLog) print(at time.Time, message string) {
	if at.IsZero() {
		at = time.Now()
	}
	stamp := at.UTC().Format("2006-01-02T15:04:05.000Z")
	for line := range strings.Lines(l.hide(message)) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			// A log that cannot be written must not stop an apply.
			_, _ = fmt.Fprintf(l.out, "%s %s\n", stamp, line)
		}
	}
}

func (l *runLog) event(event Event) {
	if event.Type != eventDiagnostic || event.Diagnostic == nil {
		l.print(event.Time, event.Message)
		return
	}
	diagnostic := event.Diagnostic.diagnostic()
	lead := "Error: "
	if diagnostic.Severity == terraform.SeverityWarning {
		lead = "Warning: "
	}
	l.print(event.Time, lead+diagnostic.String())
}

// hide masks secrets in text and makes it valid UTF-8.
func (l *runLog) hide(text string) string {
	return l.mask.Replace(clean(text))
}

func (l *runLog) hideAll(diagnostics terraform.Diagnostics) terraform.Diagnostics {
	for i := range diagnostics {
		diagnostics[i].Summary = l.hide(diagnostics[i].Summary)
		diagnostics[i].Detail = l.hide(diagnostics[i].Detail)
	}
	return diagnostics
}
