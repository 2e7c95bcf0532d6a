package workspacetemplateapply

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	planchange "github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

// workspaceRun returns the WorkspaceRun of a run.
func (c *testController) workspaceRun(id string) *infrav1.WorkspaceRun {
	c.t.Helper()
	view := &infrav1.WorkspaceRun{}
	c.Expect(c.server.Get(c.t.Context(), key(id), view)).To(Succeed())
	return view
}

func TestRecordRun_showsTheRun(t *testing.T) {
	c := newTestController(t, append(values(), &clusterv1.Cluster{ObjectMeta: objectMeta("demo")}, newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	}))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()

	view := c.workspaceRun("hello-r1")
	c.Expect(view.Spec.Workspace).To(Equal("hello"))
	c.Expect(view.Spec.RunRecord).To(Equal(c.get().Status.History[0]))
	c.Expect(view.Labels).To(Equal(map[string]string{infrav1.WorkspaceLabel: "hello", clusterv1.ClusterNameLabel: "demo"}))
	secret := c.runSecret("hello-r1")
	c.Expect(view.OwnerReferences).To(Equal([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}}))
}

func TestRecordRun_showsTheRunAfterAnyFailure(t *testing.T) {
	recordWithFailures(t, newRunOperation("now"), terraform.Result{Outcome: terraform.OutcomeSucceeded}, func(c *testController) {
		history := c.get().Status.History
		c.Expect(history).To(HaveLen(2))
		c.Expect(c.workspaceRun("hello-r2").Spec.RunRecord).To(Equal(history[0]))
	})
}

// The history does not depend on what users see of it.
func TestRecordRun_doesNotRequireThatItIsShown(t *testing.T) {
	resource := infrav1.GroupVersion.WithResource("workspaceruns").GroupResource()
	for name, refused := range map[string]error{
		"no permission": apierrors.NewForbidden(resource, "hello-r1", errRefused),
		"not decoded":   apierrors.NewBadRequest("json: cannot unmarshal number 1e999"),
		"invalid":       apierrors.NewInvalid(infrav1.GroupVersion.WithKind("WorkspaceRun").GroupKind(), "hello-r1", nil),
		"too large":     apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
	} {
		t.Run(name, func(t *testing.T) { recordsWithoutView(t, refused) })
	}
}

func recordsWithoutView(t *testing.T, refused error) {
	t.Helper()
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, isView := obj.(*infrav1.WorkspaceRun); isView {
				return refused
			}
			return w.Create(ctx, obj, opts...)
		},
	})
	c.frame = c.reconciler.build().router()
	c.reconcile()
	c.Expect(c.get().Status.History).To(HaveLen(1))
	c.Expect(c.server.Get(t.Context(), key("hello-r1"), &infrav1.WorkspaceRun{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// storeChanges stores what a plan changes, as its runner does.
func (c *testController) storeChanges(runID, content string) *corev1.Secret {
	c.t.Helper()
	meta := record.Meta(terraform.WorkspaceRef{Namespace: "n", Name: "hello", UID: "u"}, record.ComponentPlan, runID)
	chunks, err := record.Chunks(record.ChangesName(planID), []byte(content), meta)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(chunks).To(HaveLen(1))
	chunks[0].UID = "of-the-changes"
	c.Expect(c.server.Create(c.t.Context(), chunks[0])).To(Succeed())
	return chunks[0]
}

// planned returns the controller of a workspace whose plan waits for approval.
func planned(t *testing.T, changesOf, content string) *testController {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual }))...)
	c.reconcile()
	c.storeChanges(changesOf, content)
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
	return c
}

const twoChanges = `{"resource":{"address":"aws_vpc.new","action":"update","attributes":[{"path":["tags",0],"action":"update","before":"<old>","after":{"n":1.50}}]}}
{"output":{"name":"id","action":"create"}}
`

func TestRecordRun_showsThePlan(t *testing.T) {
	c := planned(t, "hello-r1", twoChanges+`{"omitted":7}`)
	c.reconcile()
	c.Expect(*c.get().Status.Plan.Waiting).To(BeTrue())
	view := &infrav1.WorkspacePlan{}
	c.Expect(c.server.Get(t.Context(), key("hello-r1"), view)).To(Succeed())
	c.Expect(view.Spec.Workspace).To(Equal("hello"))
	c.Expect(view.Spec.Plan).To(Equal(planID))
	c.Expect(view.Spec.OmittedChanges).To(BeEquivalentTo(7))
	c.Expect(view.Spec.Changes).To(HaveLen(2))
	for i, line := range strings.Split(strings.TrimSpace(twoChanges), "\n") {
		c.Expect(view.Spec.Changes[i].Raw).To(MatchJSON(line))
	}
	c.Expect(view.OwnerReferences).To(Equal([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Secret", Name: record.ChunkName(record.ChangesName(planID), 0), UID: "of-the-changes",
	}}))
	c.Expect(c.secrets()).To(ContainElement(view.OwnerReferences[0].Name), "the plan is shown as long as it is stored")
}

// A run writes what its plan changes, and may write anything.
func TestRecordRun_showsOnlyThePlanOfTheRun(t *testing.T) {
	many := strings.Repeat(`{"output":{"name":"<","action":"create"}}`+"\n", planchange.MaxEntries+1)
	long, err := json.Marshal(strings.Repeat("<", planchange.MaxStored/2))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tt := range map[string]struct{ run, content string }{
		"of another run":         {"hello-r7", twoChanges},
		"no JSON":                {"hello-r1", "secret"},
		"no changes":             {"hello-r1", `["secret"]`},
		"too many":               {"hello-r1", many},
		"more than a plan has":   {"hello-r1", strings.Repeat(" ", 2<<20)},
		"too large when encoded": {"hello-r1", `{"resource":{"address":` + strings.ReplaceAll(string(long), `\u003c`, "<") + `,"action":"update"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := planned(t, tt.run, tt.content)
			c.reconcile()
			c.Expect(c.get().Status.History).To(HaveLen(1))
			c.Expect(c.workspaceRun("hello-r1").Spec.Outcome).To(BeEquivalentTo(terraform.OutcomePlanned))
			c.Expect(c.server.Get(t.Context(), key("hello-r1"), &infrav1.WorkspacePlan{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})
	}
}
