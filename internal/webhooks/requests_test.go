package webhooks

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const shownPlan = "plan-0123456789abcdef"

// waitingWorkspace is a workspace that editor changed last, and whose plan waits.
func waitingWorkspace() *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u", Annotations: map[string]string{infrav1.ChangedByAnnotation: "editor"}},
		Status:     infrav1.WorkspaceTemplateApplyStatus{Plan: &infrav1.PlanStatus{ID: shownPlan}},
	}
}

// record creates an object as ada in namespace n, where the workspace exists unless it is nil,
// and returns the response of the API server's request. readErr is the error of the reader.
func record[T client.Object](t *testing.T, r rules[T], workspace *infrav1.WorkspaceTemplateApply, readErr error, user string, obj T) admission.Response {
	t.Helper()
	g := NewWithT(t)
	raw, err := json.Marshal(obj)
	g.Expect(err).NotTo(HaveOccurred())
	response, after := recordRaw(t, r, workspace, readErr, user, raw)
	g.Expect(json.Unmarshal(after, obj)).To(Succeed())
	return response
}

// recordRaw is record of an object as the user writes it. It also returns the object as recorded.
func recordRaw[T client.Object](t *testing.T, r rules[T], workspace *infrav1.WorkspaceTemplateApply, readErr error, user string, raw []byte) (admission.Response, []byte) {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(infrav1.AddToScheme(scheme)).To(Succeed())
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if readErr != nil {
				return readErr
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	if workspace != nil {
		builder = builder.WithObjects(workspace)
	}
	response := beforeSchema(admission.WithDefaulter(scheme, recorder[T]{reader: builder.Build(), record: r.record}).Handler).Handle(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "n", Object: runtime.RawExtension{Raw: raw},
			Kind:     metav1.GroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceApproval")),
			UserInfo: authenticationv1.UserInfo{Username: user},
		},
	})
	if !response.Allowed {
		return response, raw
	}
	text, err := json.Marshal(response.Patches)
	g.Expect(err).NotTo(HaveOccurred())
	patch, err := jsonpatch.DecodePatch(text)
	g.Expect(err).NotTo(HaveOccurred())
	after, err := patch.Apply(raw)
	g.Expect(err).NotTo(HaveOccurred())
	return response, after
}

func approvalOf(plan string) *infrav1.WorkspaceApproval {
	return &infrav1.WorkspaceApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"},
		Spec:       infrav1.WorkspaceApprovalSpec{Workspace: "a", Plan: plan, Decision: infrav1.DecisionApprove},
	}
}

func operationOf(kind infrav1.OperationType) *infrav1.WorkspaceOperation {
	return &infrav1.WorkspaceOperation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"},
		Spec:       infrav1.WorkspaceOperationSpec{Workspace: "a", Type: kind},
	}
}

func TestRequests_recordUserAndWorkspace(t *testing.T) {
	g := NewWithT(t)

	approval := approvalOf(shownPlan)
	approval.Spec.DecidedBy, approval.Spec.OwnChange = "ada", infrav1.OwnChangeYes
	g.Expect(record(t, workspaceApprovalRules, waitingWorkspace(), nil, "ada", approval).Allowed).To(BeTrue())
	g.Expect(approval.Spec).To(Equal(infrav1.WorkspaceApprovalSpec{
		Workspace: "a", Plan: shownPlan, Decision: infrav1.DecisionApprove, WorkspaceUID: "u", DecidedBy: "ada", OwnChange: infrav1.OwnChangeNo,
	}), "what the user writes is replaced")
	g.Expect(approval.OwnerReferences).To(BeEmpty(), "a deletion in the foreground would delete it first")

	operation := operationOf(infrav1.OperationRun)
	g.Expect(record(t, workspaceOperationRules, waitingWorkspace(), nil, "ada", operation).Allowed).To(BeTrue())
	g.Expect(operation.Spec).To(Equal(infrav1.WorkspaceOperationSpec{Workspace: "a", Type: infrav1.OperationRun, WorkspaceUID: "u", RequestedBy: "ada"}))
	g.Expect(operation.OwnerReferences).To(BeEmpty())
}

// The API server drops the status of a new object after the webhook.
func TestRequests_recordWhoWritesAStatusThatDoesNotDecode(t *testing.T) {
	g := NewWithT(t)
	const raw = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"WorkspaceOperation","metadata":{"name":"x","namespace":"n"},
		"spec":{"workspace":"a","type":"Run"},"status":{"phase":["Succeeded"]}}`

	response, after := recordRaw(t, workspaceOperationRules, waitingWorkspace(), nil, "ada", []byte(raw))

	g.Expect(response.Allowed).To(BeTrue())
	recorded := struct {
		Spec infrav1.WorkspaceOperationSpec
	}{}
	g.Expect(json.Unmarshal(after, &recorded)).To(Succeed())
	g.Expect(recorded.Spec).To(And(HaveField("RequestedBy", "ada"), HaveField("WorkspaceUID", BeEquivalentTo("u"))))
}

// A backup has requests that were executed, and that CAPT has deleted since.
func TestRequests_ofOtherUsersAreRefused(t *testing.T) {
	for name, workspace := range map[string]*infrav1.WorkspaceTemplateApply{"of a workspace": waitingWorkspace(), "of none": nil} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			approval, operation := approvalOf(shownPlan), operationOf(infrav1.OperationRun)
			approval.Spec.WorkspaceUID, approval.Spec.DecidedBy, approval.Spec.OwnChange = "u", "bob", infrav1.OwnChangeNo
			operation.Spec.WorkspaceUID, operation.Spec.RequestedBy = "u", "bob"
			for _, response := range []admission.Response{
				record(t, workspaceApprovalRules, workspace, nil, "velero", approval), record(t, workspaceOperationRules, workspace, nil, "velero", operation),
			} {
				g.Expect(response.Allowed).To(BeFalse())
				g.Expect(response.Result.Message).To(ContainSubstring("spec: Forbidden: this is a copy of a request of bob, which counts once"))
			}
		})
	}
}

// captctl names the workspace that its user has seen.
func TestRequests_ofAnotherWorkspaceStayThose(t *testing.T) {
	for name, workspace := range map[string]*infrav1.WorkspaceTemplateApply{"of the same name": waitingWorkspace(), "that does not exist": nil} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			approval := approvalOf(shownPlan)
			approval.Spec.WorkspaceUID, approval.Spec.OwnChange = "before", infrav1.OwnChangeNo
			g.Expect(record(t, workspaceApprovalRules, workspace, nil, "ada", approval).Allowed).To(BeTrue())
			g.Expect(approval.Spec).To(And(HaveField("WorkspaceUID", BeEquivalentTo("before")), HaveField("DecidedBy", "ada"), HaveField("OwnChange", infrav1.OwnChangeYes)))
			g.Expect(approval.OwnerReferences).To(BeEmpty())

			operation := operationOf(infrav1.OperationRun)
			operation.Spec.WorkspaceUID = "before"
			g.Expect(record(t, workspaceOperationRules, workspace, nil, "ada", operation).Allowed).To(BeTrue())
			g.Expect(operation.Spec).To(And(HaveField("WorkspaceUID", BeEquivalentTo("before")), HaveField("RequestedBy", "ada")))
			g.Expect(operation.OwnerReferences).To(BeEmpty())
		})
	}
}

func TestRequests_needTheirWorkspace(t *testing.T) {
	resource := infrav1.GroupVersion.WithResource("workspacetemplateapplies").GroupResource()
	const missing = `workspace "a" does not exist in namespace "n": write the name of a WorkspaceTemplateApply`
	for name, tt := range map[string]struct {
		readErr error
		code    int32
		message string
	}{
		"a workspace that does not exist": {code: http.StatusUnprocessableEntity, message: missing},
		"an error":                        {readErr: context.DeadlineExceeded, code: http.StatusInternalServerError, message: "reading the workspace"},
		"a namespace that is not its own": {readErr: apierrors.NewForbidden(resource, "a", nil)},
		"a slow API server":               {readErr: apierrors.NewTimeoutError("slow", 1), code: http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			approval, operation := approvalOf(shownPlan), operationOf(infrav1.OperationRun)
			for _, response := range []admission.Response{
				record(t, workspaceApprovalRules, nil, tt.readErr, "ada", approval), record(t, workspaceOperationRules, nil, tt.readErr, "ada", operation),
			} {
				if tt.code != 0 {
					g.Expect(response.Allowed).To(BeFalse())
					g.Expect(response.Result).To(And(HaveField("Code", tt.code), HaveField("Message", ContainSubstring(tt.message))))
					continue
				}
				g.Expect(response.Allowed).To(BeTrue(), "%v", response.Result)
			}
			if tt.code == 0 {
				g.Expect(approval.Spec).To(And(HaveField("WorkspaceUID", BeEmpty()), HaveField("DecidedBy", "ada"), HaveField("OwnChange", infrav1.OwnChangeYes)))
				g.Expect(operation.Spec).To(And(HaveField("WorkspaceUID", BeEmpty()), HaveField("RequestedBy", "ada")))
			}
		})
	}
}

func TestRecordApproval_findsOwnChanges(t *testing.T) {
	now, long := metav1.Now(), strings.Repeat("long", 100)
	for name, tt := range map[string]struct {
		change func(*infrav1.WorkspaceTemplateApply)
		user   string
		want   infrav1.OwnChange
	}{
		"the change of another user":        {want: infrav1.OwnChangeNo},
		"his own change":                    {user: "editor", want: infrav1.OwnChangeYes},
		"a change of a user who is unknown": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = nil }},
		"his own change of the workspace for which it runs": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Annotations[infrav1.HostedForAnnotation], a.Annotations[infrav1.ChangedByGuestAnnotation] = "team/a", "ada"
		}},
		"a change of the workspace for which it runs": {want: infrav1.OwnChangeNo, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Annotations[infrav1.HostedForAnnotation], a.Annotations[infrav1.ChangedByGuestAnnotation] = "team/a", "bob"
		}},
		"a workspace for which it runs of a user who is unknown": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Annotations[infrav1.HostedForAnnotation] = "team/a"
		}},
		"a plan that the workspace does not show": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.Plan.ID = "plan-fedcba9876543210" }},
		"a workspace without a plan":              {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.Plan = nil }},
		"his own deletion": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.DeletionTimestamp, a.Finalizers, a.Status.DeletedBy = &now, []string{"capt/test"}, "ada"
		}},
		"the deletion of another user": {want: infrav1.OwnChangeNo, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.DeletionTimestamp, a.Finalizers, a.Status.DeletedBy = &now, []string{"capt/test"}, "bob"
		}},
		"the deletion of a user who is unknown": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.DeletionTimestamp, a.Finalizers = &now, []string{"capt/test"}
		}},
		"his own deletion, which was refused": {want: infrav1.OwnChangeNo, change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.DeletedBy = "ada" }},
		"his own operation": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Plan.Request = &infrav1.RunRequest{ID: "1", RequestedBy: "ada"}
		}},
		"his own operation, with a long name": {user: long, want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Plan.Request = &infrav1.RunRequest{ID: "1", RequestedBy: long[:253] + "…"}
		}},
		"his own change of the state": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.StateChangedBy = "ada" }},
		"his own change of the state, with a long name": {user: long, want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.StateChangedBy = long[:253] + "…"
		}},
		"a change of the state by another user": {want: infrav1.OwnChangeNo, change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.StateChangedBy = "bob" }},
		"the operation of another user": {want: infrav1.OwnChangeNo, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Plan.Request = &infrav1.RunRequest{ID: "1", RequestedBy: "bob"}
		}},
		"the operation of a user who is unknown": {want: infrav1.OwnChangeYes, change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Plan.Request = &infrav1.RunRequest{ID: "1"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			workspace, user := waitingWorkspace(), "ada"
			if tt.change != nil {
				tt.change(workspace)
			}
			if tt.user != "" {
				user = tt.user
			}
			for _, forged := range []infrav1.OwnChange{"", infrav1.OwnChangeYes, infrav1.OwnChangeNo} {
				approval := approvalOf(shownPlan)
				approval.Spec.OwnChange = forged
				g.Expect(record(t, workspaceApprovalRules, workspace.DeepCopy(), nil, user, approval).Allowed).To(BeTrue())
				g.Expect(approval.Spec.OwnChange).To(Equal(tt.want), "written as %q", forged)
			}
		})
	}
}

func TestCheckOperation_rejectsWhatCannotBeExecuted(t *testing.T) {
	for want, change := range map[string]func(*infrav1.WorkspaceOperationSpec){
		"": func(s *infrav1.WorkspaceOperationSpec) {
			s.Run = &infrav1.RunOptions{Replace: []infrav1.AddressString{"aws_vpc.this"}}
		},
		"spec.run: Invalid value: replace, target, refreshOnly and import exclude each other": func(s *infrav1.WorkspaceOperationSpec) {
			s.Run = &infrav1.RunOptions{Replace: []infrav1.AddressString{"aws_vpc.this"}, RefreshOnly: true}
		},
		"spec.state: Invalid value: command mv has 1 addresses, but takes 2": func(s *infrav1.WorkspaceOperationSpec) {
			s.Type, s.State = infrav1.OperationState, &infrav1.StateOptions{Command: "mv", Args: []infrav1.AddressString{"a.b"}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			g := NewWithT(t)
			o := operationOf(infrav1.OperationRun)
			change(&o.Spec)
			if want == "" {
				g.Expect(Check(o)).To(BeEmpty())
				return
			}
			g.Expect(Check(o).ToAggregate()).To(MatchError(ContainSubstring(want)))
		})
	}
}
