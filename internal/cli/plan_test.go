package cli

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
)

var now = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func samplePlan() *operate.Plan {
	return &operate.Plan{
		Workspace: "net",
		PlanStatus: infrav1.PlanStatus{
			ID: "plan-1", Run: "net-r3", CreatedAt: metav1.NewTime(now.Add(-2 * time.Minute)), Waiting: new(true), Add: 2, Change: 1, Destroy: 2,
		},
		Resources: []terraform.Change{
			{Address: "aws_subnet.a", Action: terraform.ActionCreate},
			{Address: "aws_vpc.this", Action: terraform.ActionUpdate},
			{Address: "aws_eip.nat", Action: terraform.ActionReplace, Reason: "cannot_update"},
			{Address: "aws_route.old", Action: terraform.ActionDelete, Reason: "delete_because_no_resource_config"},
			{Address: "data.aws_ami.x", Action: terraform.ActionRead},
			{Address: "module.b.aws_vpc.x", Action: terraform.ActionMove, PreviousAddress: "aws_vpc.x"},
			{Address: "helm_release.karpenter", Action: terraform.ActionForget},
			{Address: "odd.one", Action: "dance", Reason: "some_new_reason"},
		},
	}
}

func TestPrintPlan_speaksAsTerraformDoes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*operate.Plan)
		style  text.Style
		want   string
	}{
		"all actions": {want: `Plan plan-1 of net, made 2m ago by run net-r3, waits for approval

  + aws_subnet.a will be created
  ~ aws_vpc.this will be updated in-place
-/+ aws_eip.nat must be replaced, because it cannot be updated in place
  - aws_route.old will be destroyed, because it is not in the module any more
 <= data.aws_ami.x will be read during apply
  → module.b.aws_vpc.x has moved (moved from aws_vpc.x)
  . helm_release.karpenter will be forgotten, but not destroyed
  ? odd.one dance, because some new reason

Plan: 2 to add, 1 to change, 2 to destroy.
`},
		"coloured, blocked and cut short": {
			style: text.Style{Colour: true},
			change: func(p *operate.Plan) {
				p.Resources, p.OmittedChanges, p.Blocked = p.Resources[1:3], 7, []string{"aws_eip.nat"}
			},
			want: "Plan plan-1 of net, made 2m ago by run net-r3, held back by protection\n\n" +
				"\x1b[33m  ~\x1b[0m aws_vpc.this will be updated in-place\n" +
				"\x1b[31m-/+\x1b[0m aws_eip.nat must be replaced, because it cannot be updated in place\x1b[31m (protected)\x1b[0m\n" +
				"    and 7 more\n\n\x1b[1mPlan:\x1b[0m 2 to add, 1 to change, 2 to destroy.\n",
		},
		"outputs only": {
			change: func(p *operate.Plan) {
				p.Resources, p.OutputsOnly, p.Waiting, p.Add, p.Change, p.Destroy = nil, true, nil, 0, 0, 0
			},
			want: "Plan plan-1 of net, made 2m ago by run net-r3\n\nOnly outputs change.\n\nPlan: 0 to add, 0 to change, 0 to destroy.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := samplePlan()
			if tc.change != nil {
				tc.change(plan)
			}
			var out bytes.Buffer
			g.Expect(printPlan(&out, plan, tc.style, now)).To(Succeed())
			g.Expect(out.String()).To(Equal(tc.want))
		})
	}
}

func TestPrintDrift_saysWhatDiffers(t *testing.T) {
	seen := metav1.NewTime(now.Add(-time.Minute))
	for name, tc := range map[string]struct {
		drift drift
		want  string
	}{
		"never looked": {drift{Workspace: "net", Action: infrav1.DriftOff}, "Nobody has compared net with reality yet: look now with --now\nNot looked for regularly: drift.action is Off\n"},
		"none":         {drift{Workspace: "net", Action: infrav1.DriftReport, Interval: metav1.Duration{Duration: time.Hour}, CheckedAt: seen}, "net: no drift, seen 60s ago\nLooked for every 1h0m0s, action Report\n"},
		"some": {
			drift{Workspace: "net", CheckedAt: seen, Resources: []infrav1.ResourceChange{{Address: "a.b", Action: "update"}, {Address: "a.c", Action: "delete"}}},
			"net: 2 resources differ from the state, seen 60s ago\n\n  ~ a.b was changed outside of Terraform\n  - a.c was deleted outside of Terraform\n\nNot looked for regularly: drift.action is Off\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			g.Expect(printDrift(&out, tc.drift, text.Style{}, now)).To(Succeed())
			g.Expect(out.String()).To(Equal(tc.want))
		})
	}
}

func TestUnlockQuestion_refusesWhileTheHolderLives(t *testing.T) {
	for name, tc := range map[string]struct {
		lock      operate.Lock
		want, err string
	}{
		"lives":         {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessRunning, Where: "pod a/b"}, err: "run net-r3 holds the lock and lives (pod a/b): stop it with captctl cancel net"},
		"about to":      {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessPending, Where: "the run is about to begin"}, err: "run net-r3 holds the lock and lives (the run is about to begin): stop it with captctl cancel net"},
		"gone":          {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessGone, Where: "the run has ended"}, want: "Run net-r3 is gone (the run has ended)."},
		"a person's":    {lock: operate.Lock{ID: "1234", Holder: terraform.LivenessUnknown, Who: "ada@laptop", Created: "yesterday"}, want: "Lock 1234 is held by ada@laptop since yesterday, and nothing proves"},
		"other machine": {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessUnknown, Where: "process 7 on far"}, want: "held by process 7 on far, and nothing proves"},
		"nobody's":      {lock: operate.Lock{ID: "x", Holder: terraform.LivenessUnknown}, want: "held by somebody, and nothing proves"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			question, err := unlockQuestion(&tc.lock, "net")
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(question).To(ContainSubstring(tc.want))
		})
	}
}
