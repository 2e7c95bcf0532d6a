package changes

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

const replaces = " # forces replacement"

// leaf returns the lines of the change of a single value.
func leaf(name string, a *change.Attribute, indent int, end string) []line {
	symbol := styleOf(a.Action).symbol
	suffix := end
	if a.Replaces {
		suffix += replaces
	}
	if a.Sensitive {
		return []line{{symbol, indent, name + "(sensitive value)" + suffix}}
	}
	before, after := textOf(a.Before), textOf(a.After)
	if lines := document(name, a, indent, suffix); lines != nil {
		return lines
	}
	if strings.Contains(before, "\n") || strings.Contains(after, "\n") {
		return heredoc(name, a, indent, suffix)
	}
	value := encoded(a.After)
	if a.Unknown {
		value = "(known after apply)"
	}
	switch {
	case a.Action == terraform.ActionCreate:
	case a.Action == terraform.ActionDelete && end != "":
		value = encoded(a.Before)
	case a.Action == terraform.ActionDelete:
		value = encoded(a.Before) + " -> null"
	default:
		value = encoded(a.Before) + " -> " + value
	}
	return []line{{symbol, indent, name + value + suffix}}
}

// textOf returns a value that is a string, or an empty string.
func textOf(value json.RawMessage) string {
	var content string
	_ = json.Unmarshal(value, &content)
	return content
}

// encoded returns a value on one line.
func encoded(value json.RawMessage) string {
	if len(value) == 0 {
		return "null"
	}
	return string(value)
}

// document returns the lines of a string that holds a JSON document, such as an IAM
// policy, or nil if the value is something else.
func document(name string, a *change.Attribute, indent int, suffix string) []line {
	before, after := jsonDocument(a.Before), jsonDocument(a.After)
	if a.Unknown || before == nil && after == nil || before == nil && a.Before != nil || after == nil && a.After != nil {
		return nil
	}
	if before == nil {
		before = json.RawMessage("null")
	}
	if after == nil {
		after = json.RawMessage("null")
	}
	found, err := change.Compare(before, after)
	if err != nil || len(found) == 0 {
		return nil
	}
	open, closing := "{", "}"
	if first := found[0].Path; len(first) > 0 && first[0].IsIndex {
		open, closing = "[", "]"
	}
	lines := []line{{styleOf(a.Action).symbol, indent, name + "jsonencode(" + open + suffix}}
	for _, l := range attributes(found, whole(a.Action)) {
		l.indent += indent
		lines = append(lines, l)
	}
	return append(lines, line{indent: indent, text: closing + ")"})
}

// jsonDocument returns the JSON object or list in a string, or nil.
func jsonDocument(value json.RawMessage) json.RawMessage {
	content := bytes.TrimSpace([]byte(textOf(value)))
	if len(content) == 0 || content[0] != '{' && content[0] != '[' || !json.Valid(content) {
		return nil
	}
	return content
}

// heredoc returns the lines of a string with several lines. Lines that are in both
// values have no symbol.
func heredoc(name string, a *change.Attribute, indent int, suffix string) []line {
	lines := []line{{styleOf(a.Action).symbol, indent, name + "<<-EOT" + suffix}}
	add := func(symbol, content string) {
		lines = append(lines, line{symbol, indent + 4, content})
	}
	if a.Unknown || a.Action != terraform.ActionUpdate {
		for content := range strings.Lines(textOf(a.Before) + textOf(a.After)) {
			add(styleOf(a.Action).symbol, strings.TrimSuffix(content, "\n"))
		}
		lines = append(lines, line{indent: indent, text: "EOT"})
		if a.Unknown {
			lines[len(lines)-1].text += " -> (known after apply)"
		}
		return lines
	}
	for _, l := range compareLines(textOf(a.Before), textOf(a.After)) {
		add(l.symbol, l.text)
	}
	return append(lines, line{indent: indent, text: "EOT"})
}

// compareLines returns the lines of two texts, with symbols for those that only one of
// them has.
func compareLines(before, after string) []line {
	old, err := json.Marshal(strings.Split(before, "\n"))
	if err != nil {
		return nil
	}
	changed, err := json.Marshal(strings.Split(after, "\n"))
	if err != nil {
		return nil
	}
	found, err := change.Compare(old, changed)
	if err != nil {
		return nil
	}
	removed, added := map[int]bool{}, map[int]bool{}
	for _, a := range found {
		if step := a.Path[0]; step.Removed {
			removed[step.Index] = true
		} else {
			added[step.Index] = true
		}
	}
	var lines []line
	oldLines, newLines := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i, j := 0, 0; i < len(oldLines) || j < len(newLines); {
		switch {
		case removed[i] && i < len(oldLines):
			lines = append(lines, line{symbol: "-", text: oldLines[i]})
			i++
		case added[j] && j < len(newLines):
			lines = append(lines, line{symbol: "+", text: newLines[j]})
			j++
		case j < len(newLines):
			lines = append(lines, line{text: newLines[j]})
			i++
			j++
		default:
			return lines
		}
	}
	return lines
}
