package events

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Convert returns the diagnostic as CAPT reports it.
func (d *eventDiagnosticBody) Convert() terraform.Diagnostic {
	diagnostic := terraform.Diagnostic{
		Severity: terraform.Severity(d.Severity),
		Summary:  Clean(d.Summary),
		Detail:   Clean(d.Detail),
		Address:  d.Address,
	}
	if d.Range != nil {
		diagnostic.File = d.Range.Filename
		diagnostic.Line = d.Range.Start.Line
		diagnostic.Column = d.Range.Start.Column
	}
	return diagnostic
}

var (
	diagnosticHead = regexp.MustCompile(`^(Error|Warning): (.*)$`)
	diagnosticAt   = regexp.MustCompile(`^\s*on (.+?) line (\d+)(?:, in (.*))?:$`)
	diagnosticWith = regexp.MustCompile(`^\s*with (.+?),$`)
	diagnosticCode = regexp.MustCompile(`^\s+\d+:`)
	frame          = strings.NewReplacer("╷", "", "│", "", "╵", "")
	ansi           = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// ParseText returns the diagnostics in the output of a command without -json.
func ParseText(text string) terraform.Diagnostics {
	var found terraform.Diagnostics
	var detail []string
	flush := func() {
		if len(found) > 0 {
			found[len(found)-1].Detail = strings.TrimSpace(strings.Join(detail, "\n"))
		}
		detail = nil
	}
	for line := range strings.Lines(frame.Replace(Clean(ansi.ReplaceAllString(text, "")))) {
		line = strings.TrimRight(line, " \r\n")
		if head := diagnosticHead.FindStringSubmatch(strings.TrimSpace(line)); head != nil {
			flush()
			found = append(found, terraform.Diagnostic{
				Severity: terraform.Severity(strings.ToLower(head[1])),
				Summary:  head[2],
			})
			continue
		}
		if len(found) == 0 {
			continue
		}
		last := &found[len(found)-1]
		if at := diagnosticAt.FindStringSubmatch(line); at != nil {
			last.File = at[1]
			last.Line, _ = strconv.Atoi(at[2])
		} else if with := diagnosticWith.FindStringSubmatch(line); with != nil {
			last.Address = with[1]
		} else if !diagnosticCode.MatchString(line) {
			detail = append(detail, strings.TrimSpace(line))
		}
	}
	flush()
	return found
}

// Clean returns text as valid UTF-8 without control characters.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		// C0, DEL and C1, and what changes the direction of text.
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
