package changes

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform/change"
)

// Printer prints the changes of a plan one by one, so that a large plan is not held in
// memory. Drift comes before the changes of resources, and outputs come last.
type Printer struct {
	Out   io.Writer
	Style text.Style
	// Protected are the addresses of resources that the plan must not destroy.
	Protected []string

	section string
	err     error
}

const (
	driftSection    = "Changes outside the module since the last run:"
	resourceSection = "The plan makes these changes:"
	outputSection   = "Changes of outputs:"
)

// Print prints a change.
func (p *Printer) Print(entry change.Entry) error {
	section, lines := p.lines(entry)
	if section != "" && section != p.section {
		p.write(p.Style.Paint(text.Bold, section) + "\n\n")
		p.section = section
	}
	for _, l := range lines {
		p.write(p.format(l) + "\n")
	}
	if len(lines) > 0 {
		p.write("\n")
	}
	return p.err
}

func (p *Printer) lines(entry change.Entry) (section string, lines []line) {
	switch {
	case entry.Drift != nil:
		return driftSection, drift(entry.Drift)
	case entry.Resource != nil:
		suffix := ""
		if slices.Contains(p.Protected, entry.Resource.Address) {
			suffix = " (protected)"
		}
		return resourceSection, resource(entry.Resource, suffix)
	case entry.Output != nil:
		return outputSection, output(entry.Output)
	case entry.Omitted > 0:
		return "", []line{{text: fmt.Sprintf("# %s not shown, because the plan is too large", text.Count(entry.Omitted, "change"))}}
	default:
		return "", nil
	}
}

// format returns a line with its symbol in a column of its own.
func (p *Printer) format(l line) string {
	if l.indent < 0 {
		return p.Style.Paint(text.Bold, strings.Repeat(" ", -l.indent)+oneLine(l.text))
	}
	symbol := strings.Repeat(" ", 3-min(3, len([]rune(l.symbol)))) + p.Style.Paint(symbolColours[l.symbol], l.symbol)
	return strings.TrimRight(strings.Repeat(" ", l.indent)+symbol+" "+p.highlight(oneLine(l.text)), " ")
}

func (p *Printer) highlight(content string) string {
	if rest, found := strings.CutSuffix(content, replaces); found {
		return rest + p.Style.Paint(text.Red, replaces)
	}
	return content
}

func (p *Printer) write(content string) {
	if p.err != nil {
		return
	}
	if _, err := io.WriteString(p.Out, content); err != nil {
		p.err = fmt.Errorf("writing the plan: %w", err)
	}
}

// markdownFence is the room for what surrounds the changes.
const markdownFence = 100

// Markdown collects the changes of a plan for a comment on a pull request.
type Markdown struct {
	// Protected are the addresses of resources that the plan must not destroy.
	Protected []string
	// Limit is the size of the document in bytes. Further changes are only counted.
	Limit int

	content strings.Builder
	section string
	omitted int
}

// Add adds a change.
func (m *Markdown) Add(entry change.Entry) {
	if entry.Omitted > 0 {
		m.omitted += entry.Omitted
		return
	}
	section, lines := (&Printer{Protected: m.Protected}).lines(entry)
	var block strings.Builder
	if section != m.section {
		block.WriteString(section + "\n\n")
	}
	for _, l := range lines {
		block.WriteString(diffLine(l) + "\n")
	}
	if m.content.Len()+block.Len()+markdownFence > m.Limit || m.omitted > 0 {
		m.omitted++
		return
	}
	m.section = section
	m.content.WriteString(block.String() + "\n")
}

// diffLine returns a line whose first column has the symbol that colours it.
func diffLine(l line) string {
	first := map[string]string{"": " ", "+": "+", "-": "-", "→": " ", ".": " "}
	mark, known := first[l.symbol]
	if !known {
		mark = "!"
	}
	if l.indent < 0 {
		return "# " + strings.TrimPrefix(oneLine(l.text), "# ")
	}
	shown := l.symbol
	if shown == mark {
		shown = " "
	}
	return strings.TrimRight(mark+strings.Repeat(" ", l.indent)+fmt.Sprintf("%3s ", shown)+oneLine(l.text), " ")
}

// String returns the document.
func (m *Markdown) String() string {
	content := strings.TrimRight(m.content.String(), "\n")
	if content == "" && m.omitted == 0 {
		return ""
	}
	fence := "```"
	for strings.Contains(content, fence) {
		fence += "`"
	}
	var out string
	if content != "" {
		out = fence + "diff\n" + content + "\n" + fence + "\n"
	}
	if m.omitted > 0 {
		out += fmt.Sprintf("\n%s not shown.\n", text.Count(m.omitted, "more change"))
	}
	return out
}

// oneLine returns a text without control characters and line breaks: a value cannot look
// like another line of the plan.
func oneLine(content string) string {
	return strings.NewReplacer("\n", "\uFFFD", "\t", " ").Replace(text.Clean(content))
}
