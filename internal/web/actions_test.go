package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

const planID = "plan-0123456789abcdef"

// createPlan creates a workspace whose plan waits for approval.
func createPlan(t *testing.T, namespace string, blocked ...string) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := createWorkspace(t, namespace, "demo", "net")
	setStatus(t, apply, func() {
		apply.Status.Plan = &infrav1.PlanStatus{ID: planID, Run: "net-r1", Waiting: new(true), Add: 1, Blocked: blocked, CreatedAt: metav1.Now()}
	})
	return apply
}

func TestApprove_needsTheRightAndThePlanThatWasSeen(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	apply := createPlan(t, namespace, "aws_vpc.this")
	bind(t, "viewer", namespace, readAll)
	bind(t, "approver", namespace, readAll, rbacv1.PolicyRule{
		APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspaceapprovals", "workspaceoperations", "workspaceoperations/state"}, Verbs: []string{"create"},
	})
	path := "/api/v1/workspaces/" + namespace + "/net/"

	viewer := start(t, Options{Config: as("viewer"), Namespace: namespace})
	status, body := viewer.send(http.MethodPost, path+"approve", `{"plan":"`+planID+`","allowDestroy":["aws_vpc.this"]}`)
	viewer.Expect(status).To(Equal(http.StatusForbidden), body)
	viewer.Expect(body).To(ContainSubstring(`"missing":"create workspaceapprovals in ` + namespace + `","role":"capt-approver"`))
	_, body = viewer.send(http.MethodGet, path+"can", "")
	viewer.Expect(body).To(MatchJSON(`{"change":false,"approve":false,"state":false,"secrets":false}`))

	approver := start(t, Options{Config: as("approver"), Namespace: namespace})
	_, body = approver.send(http.MethodGet, path+"can", "")
	approver.Expect(body).To(MatchJSON(`{"change":true,"approve":true,"state":true,"secrets":false}`))

	bind(t, "editor", namespace, readAll, rbacv1.PolicyRule{
		APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspaceoperations"}, Verbs: []string{"create"},
	})
	editor := start(t, Options{Config: as("editor"), Namespace: namespace})
	_, body = editor.send(http.MethodGet, path+"can", "")
	editor.Expect(body).To(MatchJSON(`{"change":true,"approve":false,"state":false,"secrets":false}`))
	status, body = approver.send(http.MethodPost, path+"approve", `{"plan":"plan-other","allowDestroy":["aws_vpc.this"]}`)
	approver.Expect(status).To(Equal(http.StatusConflict), body)
	status, _ = approver.send(http.MethodPost, path+"approve", `{}`)
	approver.Expect(status).To(Equal(http.StatusConflict))
	status, body = approver.send(http.MethodPost, path+"approve", `{"plan":"`+planID+`"}`)
	approver.Expect(status).To(Equal(http.StatusConflict), body)
	approver.Expect(body).To(ContainSubstring("protected"))
	status, _ = approver.send(http.MethodPost, path+"approve", `{"plan":"`+planID+`","allowDestroy":["aws_vpc.this,aws_vpc.other"]}`)
	approver.Expect(status).To(Equal(http.StatusConflict), "an address is one resource")
	status, body = approver.send(http.MethodPost, path+"approve", `{"plan":"`+planID+`","allowDestroy":["aws_vpc.this"],"comment":"`+strings.Repeat("x", 2000)+`"}`)
	approver.Expect(status).To(Equal(http.StatusUnprocessableEntity), body)
	status, body = approver.send(http.MethodPost, path+"approve", `{"plan":"`+planID+`","allowDestroy":["aws_vpc.this"],"comment":"Agreed\nwith Bob"}`)
	approver.Expect(status).To(Equal(http.StatusOK), body)
	var list infrav1.WorkspaceApprovalList
	approver.Expect(env.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	approver.Expect(list.Items).To(HaveLen(1))
	approver.Expect(list.Items[0].Spec).To(Equal(infrav1.WorkspaceApprovalSpec{
		Workspace: "net", WorkspaceUID: apply.UID, Plan: planID, Decision: infrav1.DecisionApprove, AllowDestroy: []string{"aws_vpc.this"}, Comment: "Agreed with Bob",
	}))
}

func TestActions_requestWhatCaptctlRequests(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	apply := createPlan(t, namespace)
	setStatus(t, apply, func() {
		apply.Status.Run = &infrav1.RunStatus{ID: "net-r2", Operation: "Apply"}
		apply.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: metav1.ConditionTrue, Reason: "Applied", LastTransitionTime: metav1.Now()}}
	})
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	path := "/api/v1/workspaces/" + namespace + "/net/"
	for name, body := range map[string]string{"reject": `{"plan":"` + planID + `"}`, "retry": `{}`, "cancel": `{"run":"net-r2"}`, "drift": `{}`} {
		status, answer := p.send(http.MethodPost, path+name, body)
		p.Expect(status).To(Equal(http.StatusOK), "%s: %s", name, answer)
	}
	var approvals infrav1.WorkspaceApprovalList
	p.Expect(env.Client.List(t.Context(), &approvals, client.InNamespace(namespace))).To(Succeed())
	p.Expect(approvals.Items).To(ConsistOf(HaveField("Spec.Decision", infrav1.DecisionReject)))
	var operations infrav1.WorkspaceOperationList
	p.Expect(env.Client.List(t.Context(), &operations, client.InNamespace(namespace))).To(Succeed())
	var types []infrav1.OperationType
	for _, operation := range operations.Items {
		types = append(types, operation.Spec.Type)
	}
	p.Expect(types).To(ConsistOf(infrav1.OperationRun, infrav1.OperationCancel, infrav1.OperationCheckDrift))
	status, _ := p.send(http.MethodPost, path+"cancel", `{"run":"net-r1"}`)
	p.Expect(status).To(Equal(http.StatusConflict), "another run")
	status, body := p.send(http.MethodPost, path+"restore", `{"snapshot":"none"}`)
	p.Expect(status).To(Equal(http.StatusConflict))
	p.Expect(body).To(ContainSubstring("not found"))
	status, body = p.send(http.MethodPost, path+"unlock", `{"lock":"other"}`)
	p.Expect(status).To(Equal(http.StatusConflict))
	p.Expect(body).To(ContainSubstring("is not the current one"))
	_, body = p.send(http.MethodGet, path+"snapshots", "")
	p.Expect(body).To(MatchJSON(`[]`))
	status, _ = p.send(http.MethodGet, "/api/v1/workspaces/"+namespace+"/none/plan", "")
	p.Expect(status).To(Equal(http.StatusNotFound))
}

func TestSnapshots_areReadAFewAtATime(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createWorkspace(t, namespace, "demo", "net")
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	p.Expect(p.server.states.TryAcquire(maxStates)).To(BeTrue())
	answered := make(chan string, 1)
	go func() {
		_, body := p.send(http.MethodGet, "/api/v1/workspaces/"+namespace+"/net/snapshots", "")
		answered <- body
	}()
	// Nothing shows that a request waits, so no event can replace this time.
	p.Consistently(answered, "300ms").ShouldNot(Receive(), "it waits for one of the others")
	p.server.states.Release(1)
	p.Eventually(answered).Should(Receive(MatchJSON(`[]`)))
}

func TestTrigger_appliesAnAddonAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createAddon(t, namespace, "flux")
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true})
	status, body := p.send(http.MethodPost, "/api/v1/addons/"+namespace+"/flux/trigger", "{}")
	p.Expect(status).To(Equal(http.StatusOK), body)
	addon := &addonsv1.CAPTAddon{}
	p.Expect(env.Client.Get(t.Context(), key{Namespace: namespace, Name: "flux"}, addon)).To(Succeed())
	p.Expect(addon.Annotations).To(HaveKey(addonsv1.TriggerAnnotation))
	s := p.stream("/api/v1/stream?view=addon/" + namespace + "/flux")
	p.Eventually(s.all).Should(ContainSubstring(`"name":"flux"`))
}

func TestPlan_streamsChangesWithValues(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createPlan(t, namespace)
	entries := `{"resource":{"address":"aws_vpc.this","action":"update","attributes":[{"path":["tags","Name"],"action":"update","before":"a","after":"b"}]}}` + "\n"
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	p.Expect(env.Client.Create(t.Context(), &infrav1.WorkspacePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net-r1"},
		Spec:       infrav1.WorkspacePlanSpec{Workspace: "net", Plan: planID, Changes: []infrav1.Value{{Raw: json.RawMessage(entries)}}},
	})).To(Succeed())
	status, body := p.send(http.MethodGet, "/api/v1/workspaces/"+namespace+"/net/plan", "")
	p.Expect(status).To(Equal(http.StatusOK))
	lines := strings.Split(strings.TrimSpace(body), "\n")
	p.Expect(lines).To(HaveLen(3))
	var first, second, third PlanLine
	for i, line := range []*PlanLine{&first, &second, &third} {
		p.Expect(json.Unmarshal([]byte(lines[i]), line)).To(Succeed())
	}
	p.Expect(first.Plan.ID).To(Equal(planID))
	p.Expect(lines[1]).To(MatchJSON(`{"entry":` + strings.TrimSpace(entries) + `}`))
	p.Expect(third.End).To(Equal(&PlanEnd{Details: true}))

	bind(t, "without-plans", namespace, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspacetemplateapplies"}, Verbs: []string{"get"}})
	p = start(t, Options{Config: as("without-plans"), Namespace: namespace})
	status, body = p.send(http.MethodGet, "/api/v1/workspaces/"+namespace+"/net/plan", "")
	p.Expect(status).To(Equal(http.StatusOK))
	p.Expect(body).To(HaveSuffix(`{"end":{"details":false,"missing":"get workspaceplans in ` + namespace + `"}}` + "\n"))
}

// createRun creates the record of the run net-r1 of the workspace net.
func createRun(t *testing.T, apply *infrav1.WorkspaceTemplateApply) *corev1.Secret {
	t.Helper()
	g := NewWithT(t)
	request := &terraform.Request{RunID: "net-r1", Workspace: terraform.WorkspaceRef{Namespace: apply.Namespace, Name: "net", UID: string(apply.UID)}}
	secret, err := record.NewRun(request, record.Meta(request.Workspace, record.ComponentRun, "net-r1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(env.Client.Create(t.Context(), secret)).To(Succeed())
	return secret
}

func TestLog_followsARun(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	apply := createPlan(t, namespace)
	p := start(t, Options{Config: env.Config, Namespace: namespace}, func(s *Server) { s.pingInterval = time.Hour })
	secret := createRun(t, apply)
	patch := func(log string, finish bool) {
		content, err := record.ProgressPatch(terraform.Progress{}, []byte(log))
		if finish {
			content, err = record.FinishPatch(&terraform.Result{RunID: "net-r1", Outcome: "Succeeded"}, []byte(log))
		}
		p.Expect(err).NotTo(HaveOccurred())
		p.Expect(env.Client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, content))).To(Succeed())
	}
	patch("one\n", false)
	s := p.stream("/api/v1/workspaces/" + namespace + "/net/log")
	p.Eventually(s.all).Should(Equal(`run "net-r1"` + "\n" + `log "one\n"`))
	patch("one\ntwo\x1b[31m\n", false)
	p.Eventually(s.all).Should(HaveSuffix("log \"two\uFFFD[31m\\n\""), "control characters are replaced")
	patch("one\ntwo\x1b[31m\nthree\n", true)
	p.Eventually(s.all).Should(HaveSuffix(`log "three\n"` + "\n" + `end {}`))
}

// The page notices by it that a connection is lost.
func TestStreams_areNeverSilent(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	apply := createPlan(t, namespace)
	p := start(t, Options{Config: env.Config, Namespace: namespace, OnlyNamespace: true}, func(s *Server) { s.pingInterval = 10 * time.Millisecond })
	createRun(t, apply)
	for _, path := range []string{"stream?view=fleet", "workspaces/" + namespace + "/net/log"} {
		s := p.stream("/api/v1/" + path)
		p.Eventually(s.all).Should(ContainSubstring("ping null\nping null"), path)
		s.cancel()
	}
}

func TestLog_isRefusedWhileTooManyAreOpen(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createPlan(t, namespace)
	p := start(t, Options{Config: env.Config, Namespace: namespace})
	user, path := p.server.local.user, "/api/v1/workspaces/"+namespace+"/net/log"
	p.Expect(user.logs.TryAcquire(maxUserLogs)).To(BeTrue())
	status, body := p.send(http.MethodGet, path, "")
	p.Expect(status).To(Equal(http.StatusTooManyRequests), body)
	p.Expect(body).To(ContainSubstring("You have too many logs open: close one in another tab"))
	user.logs.Release(maxUserLogs)
	p.Expect(p.server.logs.TryAcquire(maxLogs)).To(BeTrue())
	status, body = p.send(http.MethodGet, path, "")
	p.Expect(status).To(Equal(http.StatusTooManyRequests), body)
	p.Expect(body).To(ContainSubstring("Too many users have logs open"))
	p.server.logs.Release(maxLogs)
	status, body = p.send(http.MethodGet, path, "")
	p.Expect(status).NotTo(Equal(http.StatusTooManyRequests), body)
	p.Expect(user.logs.TryAcquire(maxUserLogs)).To(BeTrue(), "a log that ends makes room")
	p.Expect(p.server.logs.TryAcquire(maxLogs)).To(BeTrue(), "a log that ends makes room")
}
