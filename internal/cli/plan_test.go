package cli

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

var now = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// noValues is a plan whose values are not stored.
func noValues(func(change.Entry) error) (bool, error) { return false, nil }

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

func TestPlan_refusesFlagsOfOtherPlans(t *testing.T) {
	for _, flags := range [][]string{{"-o", "markdown"}, {"--short"}} {
		g := NewWithT(t)
		root := New(Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		root.SetArgs(append([]string{"plan", "net"}, flags...))
		err := root.ExecuteContext(t.Context())
		g.Expect(err).To(MatchError(ContainSubstring("-o markdown and --short need --dir, or captctl show plan")))
		g.Expect(Code(err)).To(Equal(2))
	}
}

func TestPrintPlan_saysThatValuesAreHidden(t *testing.T) {
	g := NewWithT(t)
	forbidden := func(func(change.Entry) error) (bool, error) { return false, operate.ErrNoPlans }
	plan := samplePlan()
	var out, document bytes.Buffer
	g.Expect(printPlan(text.NewPrintable(&out), plan, forbidden, text.Style{}, time.Now())).To(Succeed())
	g.Expect(printMarkdown(&document, plan, forbidden, commentLimit)).To(Succeed())
	for _, printed := range []string{out.String(), document.String()} {
		g.Expect(printed).To(And(ContainSubstring("aws_vpc.this"), ContainSubstring("The values are not shown: you may not get WorkspacePlans in this namespace.")))
	}
}

func TestPrintPlan_usesTheFormatOfTerraform(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*operate.Plan)
		style  text.Style
		want   string
	}{
		"all actions": {want: `Plan plan-1 of net, created 2m ago by run net-r3, waiting for approval

  + aws_subnet.a will be created
  ~ aws_vpc.this will be updated in-place
-/+ aws_eip.nat must be replaced, because it cannot be updated in place
  - aws_route.old will be destroyed, because it is no longer in the module
 <= data.aws_ami.x will be read during apply
  → module.b.aws_vpc.x has moved (moved from aws_vpc.x)
  . helm_release.karpenter will be forgotten, but not destroyed
  ? odd.one dance, because some new reason

Plan: 2 to add, 1 to change, 2 to destroy.
`},
		"colours, blocked and omitted changes": {
			style: text.Style{Colour: true},
			change: func(p *operate.Plan) {
				p.Resources, p.OmittedChanges, p.Blocked = p.Resources[1:3], 7, []string{"aws_eip.nat"}
			},
			want: "Plan plan-1 of net, created 2m ago by run net-r3, blocked by protected resources\n\n" +
				"\x1b[33m  ~\x1b[0m aws_vpc.this will be updated in-place\n" +
				"\x1b[31m-/+\x1b[0m aws_eip.nat must be replaced, because it cannot be updated in place\x1b[31m (protected)\x1b[0m\n" +
				"    and 7 more\n\n\x1b[1mPlan:\x1b[0m 2 to add, 1 to change, 2 to destroy.\n",
		},
		"violated policies": {
			change: func(p *operate.Plan) {
				p.Resources, p.PolicyAction = p.Resources[:1], infrav1.PolicyDeny
				p.Violations = []infrav1.PolicyViolation{
					{Kind: "ClusterWorkspacePolicy", Policy: "guard", Rule: "keep", Action: infrav1.PolicyDeny, Message: "No.", Resources: []string{"a.b", "a.c"}, Count: 5},
					{Kind: "WorkspacePolicy", Policy: "size", Rule: "small", Action: infrav1.PolicyWarn, Message: "It is\nlarge"},
				}
			},
			want: "Plan plan-1 of net, created 2m ago by run net-r3, denied by a policy\n\n  + aws_subnet.a will be created\n\n" +
				"Policies:\n\n  Deny ClusterWorkspacePolicy guard, rule keep: No. (a.b, a.c and 3 more)\n  Warn WorkspacePolicy size, rule small: It is large\n\n" +
				"Plan: 2 to add, 1 to change, 2 to destroy.\n",
		},
		"outputs only": {
			change: func(p *operate.Plan) {
				p.Resources, p.OutputsOnly, p.Waiting, p.Add, p.Change, p.Destroy = nil, true, nil, 0, 0, 0
			},
			want: "Plan plan-1 of net, created 2m ago by run net-r3\n\nOnly outputs change.\n\nPlan: 0 to add, 0 to change, 0 to destroy.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := samplePlan()
			if tc.change != nil {
				tc.change(plan)
			}
			var out bytes.Buffer
			g.Expect(printPlan(text.NewPrintable(&out), plan, noValues, tc.style, now)).To(Succeed())
			g.Expect(out.String()).To(Equal(tc.want))
		})
	}
}

func TestPrintDrift_listsResources(t *testing.T) {
	checked := metav1.NewTime(now.Add(-time.Minute))
	for name, tc := range map[string]struct {
		drift drift
		want  string
	}{
		"never checked": {drift{Workspace: "net", Action: infrav1.DriftOff}, "net: not checked for drift yet; run a check with --now\nNot checked regularly: drift.action is Off\n"},
		"none":          {drift{Workspace: "net", Action: infrav1.DriftReport, Interval: metav1.Duration{Duration: time.Hour}, CheckedAt: checked}, "net: no drift, checked 60s ago\nChecked every 1h0m0s, action Report\n"},
		"some": {
			drift{Workspace: "net", CheckedAt: checked, Resources: []infrav1.ResourceChange{{Address: "a.b", Action: "update"}, {Address: "a.c", Action: "delete"}}},
			"net: drift in 2 resources, checked 60s ago\n\n  ~ a.b was changed outside of Terraform\n  - a.c was deleted outside of Terraform\n\nNot checked regularly: drift.action is Off\n",
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

func TestUnlockQuestion_refusesWhileTheHolderIsActive(t *testing.T) {
	for name, tc := range map[string]struct {
		lock      operate.Lock
		want, err string
	}{
		"running":       {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessRunning, Where: "pod a/b"}, err: "run net-r3 holds the lock and is active (pod a/b): cancel it with captctl cancel net"},
		"not started":   {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessPending, Where: "the run has not started"}, err: "run net-r3 holds the lock and is active (the run has not started): cancel it with captctl cancel net"},
		"ended":         {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessGone, Where: "the run has ended"}, want: "Run net-r3 is not running any more (the run has ended)."},
		"a user":        {lock: operate.Lock{ID: "1234", Holder: terraform.LivenessUnknown, Who: "ada@laptop", Created: "yesterday"}, want: "Lock 1234 is held by ada@laptop since yesterday. It is not known whether"},
		"other machine": {lock: operate.Lock{ID: "net-r3", Holder: terraform.LivenessUnknown, Where: "process 7 on far"}, want: "held by process 7 on far. It is not known whether"},
		"unknown":       {lock: operate.Lock{ID: "x", Holder: terraform.LivenessUnknown}, want: "held by an unknown user. It is not known whether"},
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
