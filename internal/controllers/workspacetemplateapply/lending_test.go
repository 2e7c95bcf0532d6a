package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// hostCondition returns status and reason of a condition of the workspace that runs for n/hello.
func (c *testController) hostCondition(conditionType string) string {
	c.t.Helper()
	found := meta.FindStatusCondition(c.hosted().Status.Conditions, conditionType)
	c.Expect(found).NotTo(BeNil())
	return string(found.Status) + " " + found.Reason
}

// applyHosted applies the workspace in the namespace platform.
func (c *testController) applyHosted() {
	c.t.Helper()
	c.host()
	c.finishHosted("n.hello-r1", outputsResult)
	c.reconcileKey(hostKey)
	c.host()
	c.expect(infrav1.ReadyCondition, "True Ready")
}

// An editor of the team must not leave the resources of a workspace behind, or create them
// elsewhere.
func TestGuest_doesNotMoveWithAnAnnotation(t *testing.T) {
	for name, change := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"another namespace": func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[infrav1.HostedInAnnotation] = "elsewhere" },
		"none":              func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, infrav1.HostedInAnnotation) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newGrantController(t, both...)
			c.applyHosted()
			for _, object := range values() {
				c.Expect(c.server.Create(t.Context(), object)).To(Succeed())
			}
			c.change(func(a *infrav1.WorkspaceTemplateApply) {
				change(a)
				a.Spec.TemplateRef.Namespace = ""
			})
			c.host()
			c.Expect(c.started).To(ConsistOf("n.hello-r1"), "nothing starts with the team's template")
			c.expect(infrav1.DependenciesReadyCondition, "False BackendChanged")

			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Namespace = "platform" })
			c.host()
			c.expect(infrav1.ReadyCondition, "True Ready")
			c.Expect(c.get().Annotations).To(HaveKeyWithValue(infrav1.HostedInAnnotation, "platform"))

			c.change(change)
			c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
			c.host()
			c.Expect(c.started).To(ConsistOf("n.hello-r1", "n.hello-r2"), "its resources are destroyed where they are")
		})
	}
}

// A workspace whose host is lost starts again only if a user asks for it.
func TestGuest_startsAgainWithoutItsHostOnRequest(t *testing.T) {
	c := newGrantController(t, both...)
	c.applyHosted()
	hosted := c.hosted()
	hosted.Finalizers = nil
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), hosted)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False StateMissing")).To(ContainSubstring(infrav1.HostedInAnnotation))

	c.change(func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, infrav1.HostedInAnnotation) })
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForWorkspace")
	c.Expect(c.get().Status.AppliedInputs).To(BeEmpty())
	c.host()
	c.Expect(c.hosted().DeletionTimestamp.IsZero()).To(BeTrue())
	c.Expect(c.get().Status.Host).NotTo(BeNil())
}

// The state of a workspace is in its own namespace, whatever is lost in a restore.
func TestGuest_isNoWorkspaceThatHasRunItself(t *testing.T) {
	c := newGrantController(t, both...)
	agreed := grantTo("platform", infrav1.GrantedSecret, infrav1.GrantedConfigMap)
	agreed.Namespace = "n"
	for _, object := range append(values()[1:], agreed) {
		if config, ok := object.(*infrav1.WorkspaceProviderConfig); ok {
			config.Spec.TemplateNamespaces = []string{"platform"}
		}
		c.Expect(c.server.Create(t.Context(), object)).To(Succeed())
	}
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.expect(infrav1.ReadyCondition, "True Ready")

	lost := c.get()
	lost.Status = infrav1.WorkspaceTemplateApplyStatus{}
	c.Expect(c.server.Status().Update(t.Context(), lost)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")})).To(Succeed())
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForProviderConfig")
	err := c.server.Get(t.Context(), hostKey, &infrav1.WorkspaceTemplateApply{})
	c.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it does not start again in the namespace of the template")
}

// A user who may withdraw an approval may do so until the run has started.
func TestGuest_withdrawsItsApproval(t *testing.T) {
	c := newGrantController(t, both...)
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual })
	c.host()
	const plan = "plan-0123456789abcdef"
	approve := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }
	withdraw := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = "" }
	c.change(approve)
	c.reconcile()
	c.Expect(c.hosted().Spec.ApprovedPlan).To(Equal(plan))
	c.change(withdraw)
	c.reconcile()
	c.Expect(c.hosted().Spec.ApprovedPlan).To(BeEmpty())

	t.Log("the approval of the platform team stays")
	hosted := c.hosted()
	approve(hosted)
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	c.reconcile()
	c.Expect(c.hosted().Spec.ApprovedPlan).To(Equal(plan))
	hosted = c.hosted()
	withdraw(hosted)
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())

	t.Log("also during the deletion")
	c.change(approve)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.hosted().Spec.ApprovedPlan).To(Equal(plan))
	c.change(withdraw)
	c.reconcile()
	c.Expect(c.hosted().DeletionTimestamp.IsZero()).To(BeFalse())
	c.Expect(c.hosted().Spec.ApprovedPlan).To(BeEmpty())
}

// A user with rights in both namespaces must not approve his own change in the other one.
func TestGuest_passesItsAuthorOn(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	for _, author := range []string{"alice", "bob"} {
		c.change(func(a *infrav1.WorkspaceTemplateApply) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, infrav1.ChangedByAnnotation, author)
		})
		c.reconcile()
		c.Expect(c.hosted().Annotations).To(HaveKeyWithValue(infrav1.ChangedByGuestAnnotation, author))
	}
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	deleted := c.get()
	deleted.Status.DeletedBy = "carol"
	c.Expect(c.server.Status().Update(t.Context(), deleted)).To(Succeed())
	c.reconcile()
	c.Expect(c.hosted().Annotations).To(HaveKeyWithValue(infrav1.ChangedByGuestAnnotation, "carol"), "who deletes a workspace is responsible for the destruction")
	c.Expect(c.get().Status.DeletedBy).To(Equal("carol"), "the host has another one")
}

// A workspace runs for another one only if both say so.
func TestHost_needsItsGuest(t *testing.T) {
	c := newGrantController(t, both...)
	c.applyHosted()
	request := func(name string) {
		c.request(c.ofHost(newRunOperation(name)))
		c.reconcileKey(hostKey)
		c.Expect(c.started).To(ConsistOf("n.hello-r1"))
	}
	guest := c.get()
	guest.Status.Host.Namespace = "elsewhere"
	c.Expect(c.server.Status().Update(t.Context(), guest)).To(Succeed())
	request("now")
	c.Expect(c.hostCondition(infrav1.DependenciesReadyCondition)).To(Equal("False NotAllowed"))

	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	request("again")
	c.Expect(c.hostCondition(infrav1.DependenciesReadyCondition)).To(Equal("False WaitingForWorkspace"))
	c.Expect(c.reconciler.tracker.MapTo("WorkspaceTemplateApply")(t.Context(), newApply())).NotTo(BeEmpty(), "a restored guest ends the wait")

	t.Log("the platform team can destroy what is left")
	c.Expect(c.server.Delete(t.Context(), c.hosted())).To(Succeed())
	c.reconcileKey(hostKey)
	c.Expect(c.started).To(ConsistOf("n.hello-r1", "n.hello-r2"))
}

// forceDelete removes a workspace that nothing has destroyed.
func (c *testController) forceDelete(apply *infrav1.WorkspaceTemplateApply) {
	c.t.Helper()
	apply.Finalizers = nil
	c.Expect(c.server.Update(c.t.Context(), apply)).To(Succeed())
	c.Expect(client.IgnoreNotFound(c.server.Delete(c.t.Context(), apply))).To(Succeed())
}

// A host that vanishes before its guest asked for its deletion has destroyed nothing,
// whatever the guest waited for until then.
func TestGuest_isNotDestroyedByAHostThatItDidNotDelete(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*testController)
		reason  string
	}{
		"a host that is not its own any more": {func(c *testController) {
			hosted := c.hosted()
			delete(hosted.Annotations, infrav1.HostedForAnnotation)
			c.Expect(c.server.Update(c.t.Context(), hosted)).To(Succeed())
		}, infrav1.NotAllowedReason},
		"an owner that holds it": {func(c *testController) {
			owner := &infrav1.CAPTCluster{ObjectMeta: objectMeta("demo")}
			owner.UID = "owner"
			c.Expect(c.server.Create(c.t.Context(), owner)).To(Succeed())
			c.change(func(a *infrav1.WorkspaceTemplateApply) {
				a.Finalizers = append(a.Finalizers, infrav1.WorkspaceHeldFinalizer)
				a.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "demo", UID: "owner", Controller: new(true)}}
			})
		}, infrav1.HeldByOwnerReason},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGrantController(t, both...)
			w.applyHosted()
			c.prepare(w)
			w.Expect(w.server.Delete(t.Context(), w.get())).To(Succeed())
			w.reconcile()
			w.expect(infrav1.DestroyedCondition, "False "+c.reason)

			w.forceDelete(w.hosted())
			w.Expect(client.IgnoreNotFound(w.server.Delete(t.Context(), &infrav1.CAPTCluster{ObjectMeta: objectMeta("demo")}))).To(Succeed())
			w.reconcile()
			w.Expect(w.deleted()).To(BeFalse())
			w.expect(infrav1.DestroyedCondition, "False StateMissing")
		})
	}
}

// A user must not use up the slots of another namespace, nor act on its requests.
func TestGroup_chargesTheNamespaceOfTheGuest(t *testing.T) {
	for name, tt := range map[string]struct {
		forge func(host, guest *infrav1.WorkspaceTemplateApply)
		want  string
	}{
		"the guest": {func(_, _ *infrav1.WorkspaceTemplateApply) {}, "n"},
		"another guest": {func(host, _ *infrav1.WorkspaceTemplateApply) {
			host.Annotations[infrav1.HostedForAnnotation] = "victim/hello"
		}, ""},
		"another name":                 {func(host, _ *infrav1.WorkspaceTemplateApply) { host.Name = "forged" }, ""},
		"another namespace":            {func(host, _ *infrav1.WorkspaceTemplateApply) { host.Namespace = "team" }, ""},
		"a guest that runs elsewhere":  {func(_, guest *infrav1.WorkspaceTemplateApply) { guest.Status.Host.Namespace = "elsewhere" }, ""},
		"a guest that runs for itself": {func(_, guest *infrav1.WorkspaceTemplateApply) { guest.Status.Runs = 1 }, ""},
		"a guest that names no host":   {func(_, guest *infrav1.WorkspaceTemplateApply) { guest.Status.Host = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGrantController(t, both...)
			c.host()
			host, guest := c.hosted(), c.get()
			delete(guest.Annotations, infrav1.HostedInAnnotation)
			c.Expect(c.server.Update(t.Context(), guest)).To(Succeed())
			tt.forge(host, guest)
			c.Expect(c.server.Status().Update(t.Context(), guest)).To(Succeed())
			w := &runs.Workspace{Apply: host}
			c.Expect(c.reconciler.store.ReadRequests(t.Context(), w)).To(Succeed())
			c.Expect(execution.NewScope(w).Group().Namespace).To(Equal(tt.want))
		})
	}
}

// A run can write its own Secret. It must not name the credentials with which CAPT signs.
func TestOutputsSource_isNotThatOfTheRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	c.reconcile()
	secret := c.runSecret("hello-r1")
	secret.Annotations[record.ObjectsAnnotation] = `{"templateRef":{"namespace":"platform","name":"eks"},"providerConfigRef":{"namespace":"platform","name":"prod"}}`
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.finish("hello-r1", outputsResult)
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.get().Status.OutputsSource).To(HaveValue(HaveField("ProviderConfigRef", HaveValue(Equal(infrav1.ObjectReference{Namespace: "n", Name: "aws"})))))
}

// What the outputs of a run are from is known after the status or the seal was lost.
func TestOutputsSource_isRestored(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	source := c.get().Status.OutputsSource
	c.Expect(source).To(HaveValue(HaveField("ProviderConfigRef", HaveValue(Equal(infrav1.ObjectReference{Namespace: "n", Name: "aws"})))))

	lost := c.get()
	lost.Status = infrav1.WorkspaceTemplateApplyStatus{}
	c.Expect(c.server.Status().Update(t.Context(), lost)).To(Succeed())
	c.reconcile()
	c.Expect(c.get().Status.OutputsSource).To(Equal(source))

	t.Log("the run was sealed again")
	run := &runs.Run{Secret: c.runSecret("hello-r1")}
	delete(run.Secret.Annotations, record.ObjectsAnnotation)
	s := &sources.Resolved{Workspace: &runs.Workspace{Apply: newApply()}, Sources: template.Sources{Template: newTemplate()}, Inputs: &template.Inputs{Hash: run.Inputs()}}
	c.Expect(history.SourceOf(s, run)).To(HaveValue(HaveField("TemplateRef", infrav1.ObjectReference{Namespace: "n", Name: "vpc"})))
	s.Inputs.Hash = "other"
	c.Expect(history.SourceOf(s, run)).To(BeNil(), "the next run may use something else")
	s.Apply.Status.OutputsSource = source
	c.Expect(history.SourceOf(s, run)).To(Equal(source))
}

// passes reconciles the workspace that runs for n/hello until it has started and recorded what it
// is asked for.
func (c *testController) passes(o *infrav1.WorkspaceOperation, id string, want terraform.Operation) {
	c.t.Helper()
	c.request(o)
	for range 2 {
		c.host()
	}
	c.Expect(c.started).To(ContainElement(id))
	secret := &corev1.Secret{}
	c.Expect(c.server.Get(c.t.Context(), client.ObjectKey{Namespace: hostKey.Namespace, Name: record.SecretName(id)}, secret)).To(Succeed())
	c.Expect(secret.Annotations).To(HaveKeyWithValue(record.OperationAnnotation, string(want)))
	c.expectPhase(o.Name, infrav1.OperationRunning)
	c.Expect(c.requested(o.Name).Status.Run).To(Equal(id))
}

func TestGuest_operationsReachItsHost(t *testing.T) {
	c := newGrantController(t, both...)
	c.applyHosted()
	c.passes(newRunOperation("again"), "n.hello-r2", terraform.OperationPlanAndApply)
	c.finishHosted("n.hello-r2", outputsResult)
	c.host()
	c.expectPhase("again", infrav1.OperationSucceeded)
	c.Expect(c.hosted().Status.History[0].Request).To(Equal(&infrav1.RunRequest{ID: "uid-again", Arguments: "retry", RequestedBy: "eve"}))

	c.passes(newOperation("check", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift}), "n.hello-r3", terraform.OperationCheckDrift)
	c.finishHosted("n.hello-r3", terraform.Result{Outcome: terraform.OutcomeNoChanges, State: outputsResult.State})
	c.host()
	c.expectPhase("check", infrav1.OperationSucceeded)

	c.passes(newRunOperation("mistake"), "n.hello-r4", terraform.OperationPlanAndApply)
	c.request(newCancelOperation("n.hello-r4"))
	c.host()
	c.Expect(c.stopped).To(ConsistOf("n.hello-r4"))
	c.expectPhase("cancel-n.hello-r4", infrav1.OperationRunning)
	c.finishHosted("n.hello-r4", terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient, State: outputsResult.State})
	c.host()
	c.expectPhase("cancel-n.hello-r4", infrav1.OperationSucceeded)
	c.expectPhase("mistake", infrav1.OperationCanceled)
	c.host()
	c.Expect(c.started).To(HaveLen(4), "nothing is executed twice")
}

func TestGuest_decisionsReachItsHost(t *testing.T) {
	for decision, state := range map[infrav1.ApprovalDecision]string{
		infrav1.DecisionApprove: "False RunInProgress", infrav1.DecisionReject: "False PlanRejected",
	} {
		t.Run(string(decision), func(t *testing.T) {
			c := newGrantController(t, both...)
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual })
			c.host()
			c.finishHosted("n.hello-r1", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			c.host()
			c.expect(infrav1.AppliedCondition, "False WaitingForApproval")

			c.request(newDecision("earlier", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.WorkspaceUID = "earlier" }))
			c.host()
			c.Expect(c.started).To(HaveLen(1))

			c.request(newDecision("a", planID, decision))
			c.host()
			c.expect(infrav1.AppliedCondition, state)
			if decision == infrav1.DecisionReject {
				c.Expect(c.started).To(HaveLen(1))
				return
			}
			c.Expect(c.started).To(ConsistOf("n.hello-r1", "n.hello-r2"))
			c.Expect(c.get().Status.Plan).To(HaveField("ApprovedBy", "alice"))
			c.Expect(c.hosted().Status.Plan).To(HaveField("ApprovedBy", "alice"))
		})
	}
}

// The users of the lender decide about the state, and an editor of the guest about no more than
// the inputs.
func TestGuest_mayNotChangeTheStateOfItsHost(t *testing.T) {
	refused := map[string]*infrav1.WorkspaceOperation{
		"a state command":    newStateOperation(infrav1.StateOptions{Command: "list"}),
		"a restore":          newRestoreOperation("restore", "capt-snapshot-n.hello-r1-0"),
		"a move":             newOperation("move", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "aws"}}),
		"an adopted state":   newAdoptOperation(infrav1.AdoptOptions{State: "none/l"}),
		"a shell":            newShellOperation("shell-1"),
		"a run with options": newRunOperation("import", importing),
	}
	for name, o := range refused {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleted %t", name, deleted), func(t *testing.T) {
				c := newGrantController(t, both...)
				c.applyHosted()
				if deleted {
					c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
					c.host()
				}
				before := c.hosted().Status.Runs
				c.request(o.DeepCopy())
				c.host()
				c.Expect(c.expectPhase(o.Name, infrav1.OperationFailed)).To(HavePrefix("Workspace platform/n.hello runs for this one, and its users decide about its state"))
				c.Expect(c.hosted().Status.Runs).To(Equal(before))
				c.Expect(c.hosted().Status.Shell).To(BeNil())
			})
		}
	}

	c := newGrantController(t, both...)
	c.applyHosted()
	old := newRunOperation("old")
	old.Spec.WorkspaceUID = "earlier"
	c.request(old)
	c.host()
	c.expectPhase("old", infrav1.OperationCanceled)
	c.Expect(c.started).To(HaveLen(1))
}

func TestGuest_operationsAreDeletedAWeekAfterTheyEnded(t *testing.T) {
	c := newGrantController(t, both...)
	c.applyHosted()
	foreign := newRunOperation("foreign")
	foreign.Spec.WorkspaceUID = "earlier"
	all := []*infrav1.WorkspaceOperation{newRunOperation("passed"), newStateOperation(infrav1.StateOptions{Command: "list"}), foreign}
	for _, o := range all {
		o.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationFailed, FinishedAt: new(metav1.NewTime(noon))}
		c.request(o)
	}
	c.Expect(c.reconcile().RequeueAfter).To(Equal(7 * 24 * time.Hour))
	c.reconciler.Now = func() time.Time { return noon.Add(7 * 24 * time.Hour) }
	c.host()
	for _, o := range all {
		c.Expect(apierrors.IsNotFound(c.server.Get(t.Context(), client.ObjectKeyFromObject(o), o))).To(BeTrue(), o.Name)
	}
}
