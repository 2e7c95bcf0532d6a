package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
)

func TestWaits_endWithTheRun(t *testing.T) {
	type status = infrav1.WorkspaceTemplateApplyStatus
	plan := func(id string, waiting *bool) *infrav1.PlanStatus {
		return &infrav1.PlanStatus{ID: id, Waiting: waiting}
	}
	for name, tests := range map[string]struct {
		done  func(*infrav1.WorkspaceTemplateApply) bool
		waits map[string]status
		ends  map[string]status
	}{
		"approved": {
			func(a *infrav1.WorkspaceTemplateApply) bool { return decided(a, "plan-1") },
			map[string]status{
				"still waiting": {Plan: plan("plan-1", new(true))},
				"running":       {Plan: plan("plan-1", nil), Run: &infrav1.RunStatus{}},
			},
			map[string]status{
				"applied":            {Plan: plan("plan-1", new(false))},
				"applied and pruned": {},
				"replaced":           {Plan: plan("plan-2", new(true))},
				"failed":             {Plan: plan("plan-1", new(true)), Failure: &infrav1.FailureStatus{}},
			},
		},
		"changed": {
			func(a *infrav1.WorkspaceTemplateApply) bool { return (&observed{apply: a}).planned() },
			map[string]status{
				"no run yet":   {},
				"running":      {AppliedInputs: "a", Run: &infrav1.RunStatus{}},
				"not observed": {AppliedInputs: "a", ObservedGeneration: -1},
			},
			map[string]status{
				"applied": {AppliedInputs: "a"},
				"planned": {Plan: &infrav1.PlanStatus{}},
				"failed":  {Failure: &infrav1.FailureStatus{}},
			},
		},
	} {
		g := NewWithT(t)
		for what, s := range tests.waits {
			g.Expect(tests.done(&infrav1.WorkspaceTemplateApply{Status: s})).To(BeFalse(), "%s: %s", name, what)
		}
		for what, s := range tests.ends {
			g.Expect(tests.done(&infrav1.WorkspaceTemplateApply{Status: s})).To(BeTrue(), "%s: %s", name, what)
		}
	}
}

func TestWaits_endWithTheOperation(t *testing.T) {
	type status = infrav1.WorkspaceOperationStatus
	shown := []infrav1.RunRecord{{ID: "net-r2"}, {ID: "net-r1"}}
	for name, tc := range map[string]struct {
		status              status
		tried, ended, waits bool
	}{
		"created":               {},
		"pending":               {status: status{Phase: infrav1.OperationPending}},
		"running":               {status: status{Phase: infrav1.OperationRunning, Run: "net-r3"}},
		"succeeded":             {status{Phase: infrav1.OperationSucceeded, Run: "net-r2"}, true, true, false},
		"result is not shown":   {status: status{Phase: infrav1.OperationSucceeded, Run: "net-r3"}},
		"refused":               {status{Phase: infrav1.OperationFailed}, true, true, false},
		"plan waits":            {status{Phase: infrav1.OperationWaitingForApproval, Run: "net-r1"}, true, false, true},
		"plan is not shown":     {status: status{Phase: infrav1.OperationWaitingForApproval, Run: "net-r3"}},
		"failed and stays open": {status{Phase: infrav1.OperationPending, Run: "net-r2"}, true, false, false},
	} {
		g := NewWithT(t)
		s := &observed{apply: &infrav1.WorkspaceTemplateApply{}, operation: &infrav1.WorkspaceOperation{Status: tc.status}}
		s.apply.Status.History = shown
		g.Expect(s.tried()).To(Equal(tc.tried), name)
		g.Expect(s.ended()).To(Equal(tc.ended), name)
		g.Expect(s.waits()).To(Equal(tc.waits), name)
	}
}

func TestSettled_andAddonProgress(t *testing.T) {
	ready := addonsv1.ClusterAddonStatus{Name: "a", Ready: new(true), Reason: "Ready"}
	applying := addonsv1.ClusterAddonStatus{Name: "b", Ready: new(false), Reason: addonsv1.ApplyingReason, Message: "not\nyet"}
	failed := addonsv1.ClusterAddonStatus{Name: "c", Ready: new(false), Reason: addonsv1.TimedOutReason}
	for name, tc := range map[string]struct {
		clusters []addonsv1.ClusterAddonStatus
		cluster  string
		settled  bool
		progress string
	}{
		"no cluster":                  {nil, "", true, "karpenter is ready in 1 of 3 clusters"},
		"all ready":                   {[]addonsv1.ClusterAddonStatus{ready}, "", true, "karpenter is ready in 1 of 3 clusters"},
		"one applying":                {[]addonsv1.ClusterAddonStatus{ready, applying, failed}, "", false, "karpenter is ready in 1 of 3 clusters; b: Applying not yet"},
		"one failed":                  {[]addonsv1.ClusterAddonStatus{ready, failed}, "", true, "karpenter is ready in 1 of 3 clusters; c: TimedOut"},
		"selected cluster is ready":   {[]addonsv1.ClusterAddonStatus{ready, applying}, "a", true, "karpenter is ready in 1 of 3 clusters; a: Ready"},
		"selected cluster is applied": {[]addonsv1.ClusterAddonStatus{ready, applying}, "b", false, "karpenter is ready in 1 of 3 clusters; b: Applying not yet"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "karpenter"}}
			addon.Status.Clusters, addon.Status.Ready, addon.Status.Matched = tc.clusters, new(int32(1)), new(int32(3))
			g.Expect(settled(addon, tc.cluster)).To(Equal(tc.settled))
			g.Expect(addonProgress(addon, tc.cluster)).To(Equal(tc.progress))
		})
	}
}

func TestMigrate_refusesFlagsThatExcludeEachOther(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "at least one of the flags in the group [cluster selector all] is required",
		"--cluster demo --all":           "[all cluster] were all set",
		"--all --apply --rollback":       "[apply rollback] were all set",
		"--all --apply --dry-run":        "[apply dry-run] were all set",
		"--selector a=b --all --dry-run": "[all selector] were all set",
	} {
		root := New(Streams{})
		root.SetArgs(append([]string{"migrate", "karpenter"}, strings.Fields(args)...))
		err := root.ExecuteContext(t.Context())
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)), args)
		NewWithT(t).Expect(Code(err)).To(Equal(2), args)
	}
}

func TestMigrateFlags_changesAndQuestion(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&migrateCall{}).changes()).To(BeFalse())
	g.Expect((&migrateCall{apply: true}).changes()).To(BeTrue())
	g.Expect((&migrateCall{rollback: true}).changes()).To(BeTrue())
	g.Expect((&migrateCall{rollback: true, dryRun: true}).changes()).To(BeFalse())
	keys := []client.ObjectKey{{Namespace: "n", Name: "a"}, {Namespace: "n", Name: "b"}}
	g.Expect((&migrateCall{}).question(keys)).To(Equal("Move Karpenter to Flux in a, b?"))
	g.Expect((&migrateCall{rollback: true}).question(keys)).To(Equal("Move Karpenter back to Terraform in a, b?"))
}

func TestPartState(t *testing.T) {
	for want, status := range map[string]controlplane.PartStatus{
		"ready":                 {Running: true, Ready: true, LastExit: "exit status 1"},
		"not ready":             {Running: true, Waiting: "/readyz"},
		"waiting for /readyz":   {Waiting: "/readyz", LastExit: "exit status 1"},
		"exited: exit status 1": {LastExit: "exit status 1"},
		"stopped":               {},
	} {
		NewWithT(t).Expect(partState(environment.Part{PartStatus: status})).To(Equal(want))
	}
}

func TestFormat(t *testing.T) {
	g := NewWithT(t)
	value := text.Output("text")
	f := newFormat("output format", &value, "text", "json", "sarif")
	g.Expect(f.Set("xml")).To(MatchError(`unknown output format "xml": use text, json or sarif`))
	g.Expect(value).To(BeEquivalentTo("text"))
	g.Expect(f.Set("json")).To(Succeed())
	g.Expect(f.String()).To(Equal("json"))
	g.Expect((&format{formats: []string{"json"}}).list()).To(Equal("json"))
	g.Expect((&format{formats: []string{"yaml", "json"}}).list()).To(Equal("yaml or json"))
}

// A hint is a command of a shell, or there is none.
func TestLabelHint_isACommand(t *testing.T) {
	o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
	*o.Kube.Context = "prod"
	expression := metav1.LabelSelectorRequirement{Key: "example.com/team", Operator: metav1.LabelSelectorOpIn, Values: []string{"checkout", "search"}}
	for name, tc := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"one label":     {metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, ": label one with kubectl --context prod label cluster NAME a=b"},
		"two labels":    {metav1.LabelSelector{MatchLabels: map[string]string{"c": "d", "a": "b"}}, ": label one with kubectl --context prod label cluster NAME a=b c=d"},
		"an expression": {metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{expression}}, ""},
		"both":          {metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression}}, ""},
		"nothing":       {metav1.LabelSelector{}, ""},
	} {
		NewWithT(t).Expect(o.labelHint(&tc.selector)).To(Equal(tc.want), name)
	}
}

func TestCompletion_ofEnvironments(t *testing.T) {
	g := NewWithT(t)
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	for _, name := range []string{"demo", "second"} {
		g.Expect(os.MkdirAll(filepath.Join(home, "capt", name), 0o755)).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(home, "capt", "notes"), nil, 0o600)).To(Succeed())

	down := newDownCommand(&Options{})
	names, directive := down.ValidArgsFunction(down, nil, "")
	g.Expect(names).To(ConsistOf("demo", "second"))
	g.Expect(directive).To(Equal(cobra.ShellCompDirectiveNoFileComp))
	names, _ = down.ValidArgsFunction(down, []string{"demo"}, "")
	g.Expect(names).To(BeEmpty())
	g.Expect(environmentNames(filepath.Join(home, "none"))).To(BeEmpty())
}
