package adopt_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/adopt"
	"github.com/appthrust/capt/internal/terraform"
)

func report(stage infrav1.AdoptionStage, actions map[string]terraform.Action) *adopt.Report {
	r := &adopt.Report{Workspace: "net", Stage: stage, Plan: "plan-1"}
	var changes []terraform.Change
	for _, address := range []string{"aws_vpc.main", "aws_subnet.a", "aws_subnet.b", "module.n.aws_vpc.this[0]", "module.n.aws_subnet.a", `module.n["x.y"].aws_subnet.b`} {
		if action, found := actions[address]; found {
			changes = append(changes, terraform.Change{Address: address, Action: action})
		}
	}
	r.Add(changes)
	return r
}

const (
	create  = terraform.ActionCreate
	destroy = terraform.ActionDelete
)

func TestReport_suggestsMovedBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		actions map[string]terraform.Action
		want    []adopt.Move
	}{
		"the only one of its type": {
			map[string]terraform.Action{"aws_vpc.main": destroy, "module.n.aws_vpc.this[0]": create},
			[]adopt.Move{{From: "aws_vpc.main", To: "module.n.aws_vpc.this[0]"}},
		},
		"the same name in a module": {
			map[string]terraform.Action{"aws_subnet.a": destroy, "aws_subnet.b": destroy, "module.n.aws_subnet.a": create, `module.n["x.y"].aws_subnet.b`: create},
			[]adopt.Move{{From: "aws_subnet.a", To: "module.n.aws_subnet.a"}, {From: "aws_subnet.b", To: `module.n["x.y"].aws_subnet.b`}},
		},
		"the one that is left": {
			map[string]terraform.Action{"aws_subnet.a": destroy, "module.n.aws_subnet.a": create, "aws_subnet.b": destroy, "aws_vpc.main": create},
			[]adopt.Move{{From: "aws_subnet.a", To: "module.n.aws_subnet.a"}},
		},
		"two candidates": {
			map[string]terraform.Action{"aws_vpc.main": destroy, "module.n.aws_subnet.a": create, `module.n["x.y"].aws_subnet.b`: create},
			nil,
		},
		"two of a type for one": {
			map[string]terraform.Action{"aws_subnet.a": create, "module.n.aws_vpc.this[0]": create, "aws_vpc.main": terraform.ActionReplace},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(report(infrav1.AdoptionObserve, tc.actions).Moves).To(Equal(tc.want))
		})
	}
	NewWithT(t).Expect(adopt.Move{From: "a.b", To: "c.d"}.String()).To(Equal("moved {\n  from = a.b\n  to   = c.d\n}\n"))
}

func TestReport_saysWhatIsNext(t *testing.T) {
	const observe, commit = infrav1.AdoptionObserve, infrav1.AdoptionCommit
	update := map[string]terraform.Action{"aws_vpc.main": terraform.ActionUpdate}
	for name, tc := range map[string]struct {
		report *adopt.Report
		change func(*adopt.Report)
		want   string
	}{
		"a replacement":          {report: report(observe, map[string]terraform.Action{"aws_vpc.main": terraform.ActionReplace}), want: "adjust the module"},
		"a destroyed resource":   {report: report(commit, map[string]terraform.Action{"aws_vpc.main": destroy}), want: "adjust the module"},
		"changes":                {report: report(observe, update), want: "captctl adopt commit net"},
		"no plan":                {report: report(observe, nil), change: func(r *adopt.Report) { r.Plan = "" }, want: "wait for the first plan"},
		"nothing to change":      {report: report(observe, nil), change: func(r *adopt.Report) { r.Applied = true }, want: "captctl adopt commit net"},
		"committed":              {report: report(commit, update), change: func(r *adopt.Report) { r.Waiting = true }, want: "captctl approve net"},
		"committed and planning": {report: report(commit, update), want: "wait for the plan"},
		"taken over":             {report: report(commit, nil), change: func(r *adopt.Report) { r.Applied = true }, want: "captctl adopt complete net"},
		"complete":               {report: report("", nil), want: "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.change != nil {
				tc.change(tc.report)
			}
			var out strings.Builder
			g.Expect(tc.report.Print(&out)).To(Succeed())
			g.Expect(out.String()).To(ContainSubstring("Next: "))
			g.Expect(tc.report.Next()).To(ContainSubstring(tc.want))
		})
	}
	g := NewWithT(t)
	var out strings.Builder
	g.Expect(report(observe, map[string]terraform.Action{"aws_vpc.main": destroy, "module.n.aws_vpc.this[0]": create}).Print(&out)).To(Succeed())
	g.Expect(out.String()).To(And(
		ContainSubstring("Adoption of net: Observe\n"), ContainSubstring("Would be destroyed, which an adoption refuses: 1\n  aws_vpc.main\n"),
		ContainSubstring("moved {\n  from = aws_vpc.main\n  to   = module.n.aws_vpc.this[0]\n}\n"),
	))
}
