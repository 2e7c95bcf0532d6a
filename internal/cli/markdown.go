package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/appthrust/capt/internal/cli/changes"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/change"
)

const (
	// commentLimit is the size that a comment on a pull request may have, in bytes, less
	// some room. GitHub accepts 65,536 characters.
	commentLimit = 60_000
	// minSection is the size that a plan needs in a comment with many.
	minSection = 400
	// maxNames is the number of workspaces that a comment names in one line.
	maxNames = 20
)

// printMarkdown prints a plan for a comment on a pull request, in about limit bytes.
func printMarkdown(w io.Writer, plan *operate.Plan, read changeReader, limit int) error {
	request := ""
	if plan.Request != nil {
		request = ", `" + strings.ReplaceAll(strings.Trim(planRequest(plan), " ()"), "`", "'") + "`"
	}
	origin := fmt.Sprintf("`%s`, made by run `%s`%s%s", plan.ID, plan.Run, request, planState(plan))
	if plan.Directory != "" {
		origin = fmt.Sprintf("Module in `%s`", strings.ReplaceAll(plan.Directory, "`", "'"))
	}
	header := fmt.Sprintf("### %s of %s: %s\n\n%s\n\n", planTitle(plan), plan.Workspace, planCounts(plan), origin)
	limit = max(limit-len(header), 1)
	if violations := markdownViolations(plan.Violations); violations != "" {
		kept := cutLines(violations, limit/2, "violation") + "\n"
		header, limit = header+kept, max(limit-len(kept), 1)
	}
	document := &changes.Markdown{Protected: plan.Blocked, Limit: limit}
	detailed, err := read(func(entry change.Entry) error {
		document.Add(entry)
		return nil
	})
	if err != nil && !errors.Is(err, operate.ErrNoPlans) {
		return err
	}
	body := document.String()
	if !detailed {
		if list := listResources(plan, text.Style{}); list != "" {
			body = "```\n" + cutLines(list, limit, "change") + "```\n"
		}
	}
	if reason := hiddenValues(plan); err != nil && reason != "" {
		body += reason + "\n"
	}
	if note := unchangedNote(plan); note != "" {
		body += note + "\n"
	}
	if _, err := io.WriteString(w, header+body); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}

// cutLines returns the first lines of a text that fit into a size, and how many do not.
func cutLines(content string, limit int, what string) string {
	content = strings.TrimRight(content, "\n") + "\n"
	if len(content) <= limit {
		return content
	}
	cut := strings.LastIndexByte(content[:limit], '\n') + 1
	return fmt.Sprintf("%s%s not shown\n", content[:cut], text.Count(strings.Count(content[cut:], "\n"), "more "+what))
}

// comment collects the plans of several workspaces in one comment of limited size. Plans
// without changes are only named.
type comment struct {
	// left is the size that is left, and plans the number of plans that are to come.
	left, plans int

	unchanged, omitted []string
}

// add prints a plan, with its share of the size.
func (c *comment) add(w io.Writer, plan *speculative, read changeReader) error {
	share := max(c.left/max(c.plans, 1), minSection)
	c.plans--
	switch {
	case plan.Error == "" && !plan.hasChanges:
		c.unchanged = append(c.unchanged, plan.Workspace)
		return nil
	case c.left < minSection:
		c.omitted = append(c.omitted, plan.Workspace)
		return nil
	}
	var section strings.Builder
	if plan.Error != "" {
		printFailure(&section, plan, share)
	} else if err := printMarkdown(&section, &plan.Plan, read, share); err != nil {
		return err
	}
	section.WriteString("\n")
	c.left -= section.Len()
	_, err := io.WriteString(w, section.String())
	return err
}

// end prints the workspaces whose plans were not printed.
func (c *comment) end(w io.Writer) error {
	var out strings.Builder
	if len(c.unchanged) > 0 {
		fmt.Fprintf(&out, "No changes: %s.\n\n", codeNames(c.unchanged))
	}
	if len(c.omitted) > 0 {
		fmt.Fprintf(&out, "Not shown, because the comment would be too long: %s. Run `captctl plan NAME --dir` for them.\n\n", codeNames(c.omitted))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printFailure prints why there is no plan.
func printFailure(w io.Writer, plan *speculative, limit int) {
	cause := message.Truncate(strings.ReplaceAll(text.Clean(plan.Error), "```", "'''"), max(limit, minSection))
	fmt.Fprintf(w, "### %s of %s failed\n\n```\n%s\n```\n", planTitle(&plan.Plan), plan.Workspace, cause)
}

// codeNames returns names as code, the first ones of many.
func codeNames(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + name + "`"
	}
	return message.List(quoted, maxNames)
}
