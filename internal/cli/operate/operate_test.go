package operate_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
)

func TestNewLog_printsEachLineOnce(t *testing.T) {
	for name, tc := range map[string]struct{ was, is, want string }{
		"the beginning":         {"", "a\nb\n", "a\nb\n"},
		"nothing new":           {"a\nb\n", "a\nb\n", ""},
		"more":                  {"a\nb\n", "a\nb\nc\n", "c\n"},
		"its beginning is gone": {"a\nb\nc\n", "c\nd\n", "d\n"},
		"a line that recurs":    {"x\na\n", "a\nc\na\n", "c\na\n"},
		"all of it is gone":     {"a\nb\n", "y\nz\n", "y\nz\n"},
		"nothing yet":           {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(string(operate.NewLog([]byte(tc.was), []byte(tc.is)))).To(Equal(tc.want))
		})
	}
}

func TestWaitingPlan_isTheOneThatWasLookedAt(t *testing.T) {
	plan := func(waiting *bool) *infrav1.WorkspaceTemplateApply {
		a := &infrav1.WorkspaceTemplateApply{}
		a.Name = "net"
		a.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Waiting: waiting}
		return a
	}
	for name, tc := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		id    string
		err   string
	}{
		"any":         {apply: plan(new(true))},
		"the one":     {apply: plan(new(true)), id: "plan-1"},
		"another":     {apply: plan(new(true)), id: "plan-2", err: "plan plan-2 is not the one that waits: look at plan-1 with captctl plan net"},
		"applied":     {apply: plan(nil), err: "no plan of net waits: see captctl history net"},
		"not waiting": {apply: plan(new(false)), id: "plan-1", err: "no plan of net waits: see captctl history net"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found, err := operate.WaitingPlan(tc.apply, tc.id)
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.ID).To(Equal("plan-1"))
		})
	}
}

func TestMissing_namesTheNearest(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  string
	}{
		"one that is like it": {[]string{"network", "other"}, `no workspace "netwrk" in namespace "n": did you mean "network"?`},
		"none is like it":     {[]string{"other"}, `no workspace "netwrk" in namespace "n": press TAB for the names, or choose another namespace with -n`},
		"none at all":         {nil, `no workspace "netwrk" in namespace "n", nor any other workspace: choose another namespace with -n`},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(operate.Missing("workspace", "n", "netwrk", tc.names)).To(MatchError(tc.want))
		})
	}
}

func TestReleased_readsTheAnnotationAsTheControllerDoes(t *testing.T) {
	const refused = "the plan would destroy or replace protected resources: allow it with --allow-destroy "
	for name, tc := range map[string]struct {
		annotation string
		release    []string
		err        string
	}{
		"nothing allowed":       {err: refused + `'a.b,c.d["x,y"]'`},
		"all by annotation":     {annotation: `a.b,c.d["x,y"]`},
		"separated by a space":  {annotation: `a.b, c.d["x,y"]`},
		"separated by a line":   {annotation: "a.b\nc.d[\"x,y\"]\n"},
		"one by each":           {annotation: " a.b ", release: []string{`c.d["x,y"]`}},
		"all by flag":           {release: []string{"a.b", `c.d["x,y"]`}},
		"part of an address":    {annotation: `a.b,c.d["x`, err: refused + `'c.d["x,y"]'`},
		"another one by flag":   {annotation: "a.b", release: []string{"c.d"}, err: refused + `'c.d["x,y"]'`},
		"another one by either": {annotation: "a", release: []string{"c"}, err: refused + `'a.b,c.d["x,y"]'`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{}
			apply.Annotations = map[string]string{infrav1.AllowDestroyAnnotation: tc.annotation}
			plan := &infrav1.PlanStatus{Blocked: []string{"a.b", `c.d["x,y"]`}}
			if err := operate.Released(apply, plan, tc.release); tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}
