// Package changes prints what a plan changes in the format of Terraform: for terminals
// and, as Markdown, for pull requests.
package changes

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

// line is a line of a plan. A line without a symbol stays as it is.
type line struct {
	symbol string
	indent int
	text   string
}

// actionStyle is the symbol, colour and description of an action, as Terraform
// prints them.
type actionStyle struct {
	symbol      string
	colour      text.Colour
	description string
}

var actionStyles = map[terraform.Action]actionStyle{
	terraform.ActionCreate:  {"+", text.Green, "will be created"},
	terraform.ActionUpdate:  {"~", text.Yellow, "will be updated in-place"},
	terraform.ActionReplace: {"-/+", text.Red, "must be replaced"},
	terraform.ActionDelete:  {"-", text.Red, "will be destroyed"},
	terraform.ActionRead:    {"<=", text.Cyan, "will be read during apply"},
	terraform.ActionForget:  {".", text.Plain, "will be forgotten, but not destroyed"},
	terraform.ActionImport:  {"&", text.Cyan, "will be imported"},
	terraform.ActionMove:    {"→", text.Plain, "has moved"},
}

func styleOf(action terraform.Action) actionStyle {
	if style, known := actionStyles[action]; known {
		return style
	}
	return actionStyle{"?", text.Plain, string(action)}
}

// symbolColours are the colours of symbols.
var symbolColours = func() map[string]text.Colour {
	colours := map[string]text.Colour{"+/-": text.Red}
	for _, style := range actionStyles {
		colours[style.symbol] = style.colour
	}
	return colours
}()

// reasons are the reasons that Terraform gives for a change.
var reasons = map[string]string{
	terraform.ReasonNotFound:            "the refresh did not find it",
	"tainted":                           "it is tainted",
	"requested":                         "it was requested",
	"replace_because_tainted":           "it is tainted",
	"replace_because_cannot_update":     "it cannot be updated in place",
	"replace_by_request":                "it was requested",
	"replace_by_triggers":               "a resource in replace_triggered_by changes",
	"replace_triggered_by":              "a resource in replace_triggered_by changes",
	"cannot_update":                     "it cannot be updated in place",
	"delete_because_no_resource_config": "it is no longer in the module",
	"delete_because_no_module":          "its module no longer exists",
	"delete_because_wrong_repetition":   "its count or for_each changed",
	"delete_because_count_index":        "its index is out of range",
	"delete_because_each_key":           "its key is no longer in for_each",
	"delete_because_enabled_false":      "it is no longer enabled",
	"read_because_config_unknown":       "its configuration is not known yet",
	"read_because_dependency_pending":   "a dependency changes",
	"delete_because_no_move_target":     "the target of its move does not exist",
	"read_because_check_nested":         "a check needs it",
}

// Describe returns the symbol, its colour and a sentence about the change of a
// resource, such as "aws_vpc.this must be replaced, because it is tainted".
func Describe(c terraform.Change) (symbol string, colour text.Colour, sentence string) {
	style := styleOf(c.Action)
	sentence = c.Address + " " + style.description
	if c.PreviousAddress != "" {
		sentence = fmt.Sprintf("%s (moved from %s)", sentence, c.PreviousAddress)
	}
	if c.Reason != "" {
		sentence += ", because " + cmp.Or(reasons[c.Reason], strings.ReplaceAll(c.Reason, "_", " "))
	}
	return style.symbol, style.colour, sentence
}

// resource returns the lines of the change of a resource.
func resource(r *change.Resource, suffix string) []line {
	symbol, _, sentence := Describe(terraform.Change{Address: r.Address, Action: r.Action, PreviousAddress: r.PreviousAddress, Reason: r.Reason})
	if r.Deposed != "" {
		sentence += " (deposed object " + r.Deposed + ")"
	}
	if r.ImportID != "" && r.Action != terraform.ActionImport {
		sentence += ", after it is imported"
	}
	if r.CreateFirst {
		symbol = "+/-"
	}
	lines := []line{{text: "# " + sentence + suffix, indent: -2}}
	block := "resource"
	if r.Mode == "data" {
		block = "data"
	}
	if r.Type == "" {
		block = r.Address
	} else {
		block = fmt.Sprintf("%s %q %q", block, r.Type, r.Name)
	}
	if r.ImportID != "" {
		lines = append(lines, line{text: fmt.Sprintf("# (import ID %q)", r.ImportID), indent: -2})
	}
	if len(r.Attributes) == 0 && r.Unchanged == 0 && r.Omitted == 0 {
		return lines
	}
	lines = append(lines, line{symbol: symbol, text: block + " {"})
	lines = append(lines, attributes(r.Attributes, whole(r.Action))...)
	lines = append(lines, omitted(r.Omitted)...)
	if r.Unchanged > 0 {
		lines = append(lines, line{indent: 4, text: "# (" + text.Count(r.Unchanged, "unchanged attribute") + " hidden)"})
	}
	return append(lines, line{text: "}"})
}

// drift returns the lines of a difference between a resource and the state.
func drift(r *change.Resource) []line {
	description := map[terraform.Action]string{
		terraform.ActionUpdate: "has changed", terraform.ActionDelete: "has been deleted", terraform.ActionMove: "has moved",
	}
	lines := resource(r, "")
	lines[0].text = fmt.Sprintf("# %s %s outside the module", r.Address, cmp.Or(description[r.Action], "differs"))
	return lines
}

// output returns the lines of the change of an output.
func output(o *change.Output) []line {
	if len(o.Attributes) == 1 && len(o.Attributes[0].Path) == 0 {
		return leaf(o.Name+" = ", &o.Attributes[0], 0, "")
	}
	lines := []line{{symbol: styleOf(o.Action).symbol, text: o.Name + " = {"}}
	lines = append(append(lines, attributes(o.Attributes, whole(o.Action))...), omitted(o.Omitted)...)
	return append(lines, line{text: "}"})
}

// omitted returns a line about attributes that are not stored.
func omitted(n int) []line {
	if n == 0 {
		return nil
	}
	return []line{{indent: 4, text: "# (" + text.Count(n, "more changed attribute") + ")"}}
}

// whole returns the symbol of a value that is new or gone as a whole, or an empty
// string.
func whole(action terraform.Action) string {
	if action == terraform.ActionCreate || action == terraform.ActionDelete || action == terraform.ActionRead {
		return styleOf(action).symbol
	}
	return ""
}
