package operate

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestNewLog_returnsEachLineOnce(t *testing.T) {
	for name, tc := range map[string]struct{ previous, current, want string }{
		"first read":                  {"", "a\nb\n", "a\nb\n"},
		"nothing new":                 {"a\nb\n", "a\nb\n", ""},
		"new lines":                   {"a\nb\n", "a\nb\nc\n", "c\n"},
		"beginning was dropped":       {"a\nb\nc\n", "c\nd\n", "d\n"},
		"repeated line":               {"x\na\n", "a\nc\na\n", "c\na\n"},
		"everything was dropped":      {"a\nb\n", "y\nz\n", "y\nz\n"},
		"previous ends within a line": {"a\nb", "a\nb\n", "\n"},
		"nothing yet":                 {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(string(NewLog([]byte(tc.previous), []byte(tc.current)))).To(Equal(tc.want))
		})
	}
}

// runSecret returns the metadata of a run's record.
func runSecret(apply *infrav1.WorkspaceTemplateApply, id string) *corev1.Secret {
	ref := terraform.WorkspaceRef{Namespace: apply.Namespace, Name: apply.Name, UID: string(apply.UID)}
	secret := &corev1.Secret{ObjectMeta: record.LocalMeta(ref, record.ComponentRun, id)}
	secret.Namespace, secret.Name = apply.Namespace, record.SecretName(id)
	return secret
}

func TestRunSecret_isTheNewestByNumber(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	foreign := runSecret(apply, "net-r99")
	foreign.OwnerReferences[0].UID = "other"
	c := newClient(apply, runSecret(apply, "net-r9"), runSecret(apply, "net-r10"), runSecret(apply, "net-r8"), foreign)

	ids, err := RunIDs(t.Context(), c, apply)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ids).To(Equal([]string{"net-r10", "net-r9", "net-r8"}))
	for id, want := range map[string]string{"": "net-r10", "net-r9": "net-r9"} {
		secret, err := RunSecret(t.Context(), c, apply, id)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(secret.Name).To(Equal(record.SecretName(want)))
	}
	_, err = RunSecret(t.Context(), c, apply, "net-r99")
	g.Expect(err).To(MatchError(`run "net-r99" not found: did you mean "net-r9"?`))
	_, err = RunSecret(t.Context(), newClient(), apply, "")
	g.Expect(err).To(MatchError("net has no runs yet: see kubectl describe wsta net"))

	apply.Annotations = map[string]string{infrav1.HostedInAnnotation: "platform"}
	_, err = RunSecret(t.Context(), newClient(), apply, "")
	g.Expect(err).To(MatchError(ContainSubstring("use -n platform " + apply.Namespace + ".net")))
	_, err = RequestCommand(t.Context(), newClient(), apply, &terraform.StateCommand{}, nil, false)
	g.Expect(err).To(MatchError(ContainSubstring("-n platform")))
}

func TestPlanOf_fallsBackToTheStatus(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	_, err := PlanOf(t.Context(), newClient(), apply)
	g.Expect(err).To(MatchError("net has no plan yet: see captctl history net"))

	apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Run: "net-r1", OmittedChanges: 7, Changes: []infrav1.ResourceChange{{Address: "a.b", Action: "create"}}}
	plan, err := PlanOf(t.Context(), newClient(), apply)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Workspace).To(Equal("net"))
	g.Expect(plan.Resources).To(Equal([]terraform.Change{{Address: "a.b", Action: terraform.ActionCreate}}))
	g.Expect(plan.OmittedChanges).To(BeEquivalentTo(7))
}

func TestPlanComplete_takesOnlyTheSamePlan(t *testing.T) {
	full := []terraform.Change{{Address: "a.b", Action: terraform.ActionCreate}, {Address: "c.d", Action: terraform.ActionDelete}}
	for name, tc := range map[string]struct {
		result    *terraform.Result
		resources int
		omitted   int
	}{
		"same plan":  {&terraform.Result{Plan: &terraform.PlanSummary{ID: "plan-1", Changes: full, OutputsOnly: true}}, 2, 0},
		"other plan": {&terraform.Result{Plan: &terraform.PlanSummary{ID: "plan-2", Changes: full}}, 1, 7},
		"no plan":    {&terraform.Result{}, 1, 7},
		"no result":  {nil, 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := planFromStatus("net", &infrav1.PlanStatus{ID: "plan-1", OmittedChanges: 7, Changes: []infrav1.ResourceChange{{Address: "a.b", Action: "create"}}})
			plan.complete(tc.result)
			g.Expect(plan.Resources).To(HaveLen(tc.resources))
			g.Expect(plan.OmittedChanges).To(BeEquivalentTo(tc.omitted))
			g.Expect(plan.OutputsOnly).To(Equal(tc.omitted == 0))
			g.Expect(plan.Changes).To(BeEmpty(), "resources has them all")
		})
	}
}

func TestPlanChanges_readsTheWorkspacePlan(t *testing.T) {
	shown := func(plan string) *infrav1.WorkspacePlan {
		return &infrav1.WorkspacePlan{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net-r1"}, Spec: infrav1.WorkspacePlanSpec{
			Workspace: "net", Plan: plan, OmittedChanges: 3, Changes: []infrav1.Value{{Raw: json.RawMessage(`{"resource":{"address":"a.b","action":"create"}}`)}},
		}}
	}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "workspaceplans"}, "net-r1", nil)
	for name, tc := range map[string]struct {
		shown     *infrav1.WorkspacePlan
		err       error
		available bool
		want      error
	}{
		"shown":           {shown: shown("plan-1"), available: true},
		"of another plan": {shown: shown("plan-2")},
		"pruned":          {},
		"forbidden":       {err: refused, want: ErrNoPlans},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient()
			if tc.shown != nil {
				c = newClient(tc.shown)
			}
			c = interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if tc.err != nil {
					return tc.err
				}
				return w.Get(ctx, key, obj, opts...)
			}})
			plan := planFromStatus("net", &infrav1.PlanStatus{ID: "plan-1", Run: "net-r1"})
			var found []change.Entry
			available, err := PlanChanges(t.Context(), c, workspace("net"), plan, func(e change.Entry) error {
				found = append(found, e)
				return nil
			})
			if tc.want != nil {
				g.Expect(err).To(MatchError(tc.want))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(available).To(Equal(tc.available))
			if available {
				g.Expect(found).To(Equal([]change.Entry{{Resource: &change.Resource{Address: "a.b", Action: terraform.ActionCreate}}, {Omitted: 3}}))
			} else {
				g.Expect(found).To(BeEmpty())
			}
			g.Expect(plan.ReadDetails(t.Context(), c, workspace("net"))).To(Succeed())
			g.Expect(plan.Details).To(Equal(found))
		})
	}
}

func TestSummarizeState_countsManagedInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		state     string
		serial    *uint64
		resources *int
	}{
		"resources": {
			`{"serial": 7, "resources": [{"mode": "managed", "instances": [{}, {}]}, {"mode": "data", "instances": [{}]}, {"mode": "managed", "instances": [{}]}]}`,
			new(uint64(7)), new(3),
		},
		"empty state":     {`{"serial": 1, "resources": []}`, new(uint64(1)), new(0)},
		"encrypted state": {`{"serial": 7, "encrypted_data": "x"}`, nil, nil},
		"not a state":     {`no JSON`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			serial, resources := summarizeState([]byte(tc.state))
			NewWithT(t).Expect(serial).To(Equal(tc.serial))
			NewWithT(t).Expect(resources).To(Equal(tc.resources))
		})
	}
}

func TestSnapshotsOf_joinsTheChunks(t *testing.T) {
	g := NewWithT(t)
	content := []byte(`{"serial": 7, "resources": [{"mode": "managed", "instances": [{}]}]}`)
	ref := terraform.WorkspaceRef{Namespace: "team", Name: "net"}
	chunks, err := record.Chunks(record.SnapshotName("net-r7", content), content, record.Meta(ref, record.ComponentSnapshot, "net-r7"))
	g.Expect(err).NotTo(HaveOccurred())
	var secrets []corev1.Secret
	for _, chunk := range chunks {
		secrets = append(secrets, *chunk)
	}
	incomplete := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "capt-snapshot-net-r6-0"}}
	tail := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "capt-snapshot-net-r5-1"}}

	snapshots := snapshotsOf(append(secrets, incomplete, tail), record.ComponentSnapshot, secrets[0].Name)
	g.Expect(snapshots).To(Equal([]Snapshot{
		{Name: secrets[0].Name, Kind: record.ComponentSnapshot, Run: "net-r7", Serial: new(uint64(7)), Resources: new(1), Restored: true},
		{Name: "capt-snapshot-net-r6-0", Kind: record.ComponentSnapshot},
	}))
}

func TestPickSnapshot_byNameOrRun(t *testing.T) {
	snapshots := []Snapshot{
		{Name: "capt-rescue-net-r7-0", Kind: record.ComponentRescue, Run: "net-r7"},
		{Name: "capt-snapshot-net-r7-0", Kind: record.ComponentSnapshot, Run: "net-r7"},
	}
	for name, tc := range map[string]struct{ want, err string }{
		"net-r7":                 {want: "capt-snapshot-net-r7-0"},
		"capt-rescue-net-r7-0":   {want: "capt-rescue-net-r7-0"},
		"capt-snapshot-net-r7-0": {want: "capt-snapshot-net-r7-0"},
		"capt-snapshot-net-r8-0": {err: `snapshot "capt-snapshot-net-r8-0" not found: did you mean "capt-snapshot-net-r7-0"?`},
		"net":                    {err: `snapshot "net" not found: see captctl state snapshots net`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			snapshot, err := pickSnapshot(snapshots, name, "net")
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(snapshot.Name).To(Equal(tc.want))
		})
	}
}

func TestPlanOf_saysWhetherItWasApplied(t *testing.T) {
	run := func(id string, operation terraform.Operation, outcome terraform.Outcome) infrav1.RunRecord {
		return infrav1.RunRecord{ID: id, Operation: infrav1.RunOperation(operation), Outcome: infrav1.RunOutcome(outcome)}
	}
	for name, tc := range map[string]struct {
		waiting bool
		history []infrav1.RunRecord
		want    terraform.Outcome
	}{
		"applied at once":     {history: []infrav1.RunRecord{run("net-r1", terraform.OperationPlanAndApply, terraform.OutcomeSucceeded)}, want: terraform.OutcomeSucceeded},
		"failed":              {history: []infrav1.RunRecord{run("net-r1", terraform.OperationPlanAndApply, terraform.OutcomeFailed)}, want: terraform.OutcomeFailed},
		"waits":               {waiting: true, history: []infrav1.RunRecord{run("net-r1", terraform.OperationPlanAndApply, terraform.OutcomeBlocked)}},
		"only planned":        {history: []infrav1.RunRecord{run("net-r1", terraform.OperationPlan, terraform.OutcomePlanned)}},
		"approved":            {history: []infrav1.RunRecord{run("net-r3", terraform.OperationApply, terraform.OutcomeSucceeded), run("net-r2", terraform.OperationCheckDrift, terraform.OutcomeNoChanges), run("net-r1", terraform.OperationPlan, terraform.OutcomePlanned)}, want: terraform.OutcomeSucceeded},
		"another was planned": {history: []infrav1.RunRecord{run("net-r3", terraform.OperationApply, terraform.OutcomeSucceeded), run("net-r2", terraform.OperationPlan, terraform.OutcomePlanned), run("net-r1", terraform.OperationPlan, terraform.OutcomePlanned)}},
		"forgotten":           {},
	} {
		t.Run(name, func(t *testing.T) {
			apply := workspace("net")
			apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Run: "net-r1", Waiting: new(tc.waiting)}
			apply.Status.History = tc.history
			plan, err := PlanOf(t.Context(), newClient(), apply)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(plan.Outcome).To(BeEquivalentTo(tc.want))
		})
	}
}
