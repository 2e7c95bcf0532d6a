package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

// githubLimit is the number of characters that GitHub accepts in a comment.
const githubLimit = 65_536

// plannedChanges returns a plan with values, and their reader.
func plannedChanges(name string, resources int) (*speculative, changeReader) {
	plan := &speculative{Plan: operate.Plan{Workspace: name, Directory: "m"}, hasChanges: resources > 0}
	for i := range resources {
		plan.Resources = append(plan.Resources, terraform.Change{Address: fmt.Sprintf("aws_vpc.this[%d]", i), Action: terraform.ActionCreate})
	}
	return plan, func(emit func(change.Entry) error) (bool, error) {
		for _, r := range plan.Resources {
			if err := emit(change.Entry{Resource: &change.Resource{Address: r.Address, Action: r.Action, Type: "aws_vpc", Name: "this"}}); err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

func TestComment_fitsWithAllWorkspaces(t *testing.T) {
	for name, tt := range map[string]struct {
		workspaces, resources int
		violations            int
		want                  string
	}{
		"one large plan":                {workspaces: 1, resources: 5000, want: " more changes not shown"},
		"some large plans":              {workspaces: 10, resources: 5000, want: "### Speculative plan of w9: "},
		"more plans than fit":           {workspaces: 1000, resources: 3, want: " and "},
		"more violations than fit":      {workspaces: 3, resources: 100, violations: 2000, want: "more violations not shown"},
		"the large plan is the last":    {workspaces: 3, resources: 10, want: "### Speculative plan of w2: "},
		"workspaces without any change": {workspaces: 1000, want: "No changes: `w0`, "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out strings.Builder
			page := &comment{left: commentLimit, plans: tt.workspaces}
			for i := range tt.workspaces {
				plan, read := plannedChanges(fmt.Sprintf("w%d", i), tt.resources)
				for v := range tt.violations {
					plan.Violations = append(plan.Violations, infrav1.PolicyViolation{Kind: "WorkspacePolicy", Policy: "p", Rule: fmt.Sprintf("r%d", v), Action: infrav1.PolicyWarn, Message: "m"})
				}
				g.Expect(page.add(&out, plan, read)).To(Succeed())
			}
			g.Expect(page.end(&out)).To(Succeed())
			g.Expect(len(out.String())).To(BeNumerically("<", githubLimit))
			g.Expect(out.String()).To(ContainSubstring(tt.want))
			if tt.resources > 0 {
				g.Expect(out.String()).To(And(ContainSubstring("### Speculative plan of w0: "), ContainSubstring("aws_vpc.this[0]")))
			}
		})
	}
}

func TestComment_namesFailuresAndUnchangedWorkspaces(t *testing.T) {
	g := NewWithT(t)
	var out strings.Builder
	page := &comment{left: commentLimit, plans: 3}
	unchanged, none := plannedChanges("same", 0)
	g.Expect(page.add(&out, unchanged, none)).To(Succeed())
	g.Expect(page.add(&out, &speculative{Plan: operate.Plan{Workspace: "broken", Directory: "m"}, Error: "no ``` " + strings.Repeat("x", 2*githubLimit)}, nil)).To(Succeed())
	changed, read := plannedChanges("changed", 1)
	g.Expect(page.add(&out, changed, read)).To(Succeed())
	g.Expect(page.end(&out)).To(Succeed())
	g.Expect(len(out.String())).To(BeNumerically("<", githubLimit))
	g.Expect(out.String()).To(And(ContainSubstring("### Speculative plan of broken failed\n\n```\nno ''' x"), ContainSubstring("aws_vpc.this[0]"), HaveSuffix("No changes: `same`.\n\n")))

	failed := errors.New("disk full")
	err := (&comment{left: commentLimit, plans: 1}).add(&out, changed, func(func(change.Entry) error) (bool, error) { return false, failed })
	g.Expect(err).To(MatchError(failed))
}

func TestPrintMarkdown_limitsPlansWithoutValues(t *testing.T) {
	g := NewWithT(t)
	plan, _ := plannedChanges("w", 5000)
	var out strings.Builder
	g.Expect(printMarkdown(&out, &plan.Plan, func(func(change.Entry) error) (bool, error) { return false, nil }, commentLimit)).To(Succeed())
	g.Expect(len(out.String())).To(BeNumerically("<", githubLimit))
	g.Expect(out.String()).To(MatchRegexp(`\n\d+ more changes not shown\n` + "```"))
}
