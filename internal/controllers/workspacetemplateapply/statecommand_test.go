package workspacetemplateapply

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestRecordResult_ofAStateCommand(t *testing.T) {
	failed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}
	written := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, Phases: []terraform.PhaseTime{{Name: terraform.PhaseWritingState}}}
	remove := infrav1.StateOptions{Command: "rm", Args: []infrav1.AddressString{"a.b"}}
	tests := []struct {
		name       string
		command    infrav1.StateOptions
		result     terraform.Result
		plansAgain bool
	}{
		{"a list", infrav1.StateOptions{Command: "list"}, success, false},
		{"a list that failed", infrav1.StateOptions{Command: "list"}, failed, false},
		{"a list that was lost", infrav1.StateOptions{Command: "list"}, terraform.Result{Outcome: runs.OutcomeLost}, false},
		{"a removal", remove, success, true},
		{"a removal that failed before it changed the state", remove, failed, false},
		{"a removal that may have changed the state", remove, written, true},
		{"a removal that was lost", remove, terraform.Result{Outcome: runs.OutcomeLost}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			ask(s, newStateOperation(tt.command), newRunOperation("later"))
			recordRun(g, s, terraform.OperationStateCommand, tt.result)
			g.Expect(s.PendingCommand()).To(BeNil(), "it is not repeated")
			g.Expect(s.Apply.Status.Failure).To(BeNil(), "the workspace has not failed")
			g.Expect(s.Apply.Status.AppliedInputs == "").To(Equal(tt.plansAgain))
			g.Expect(s.Situation().Requested).To(BeTrue(), "the command does not fulfil another request")
		})
	}
}

func TestRecordResult_doesNotRepeatACommandAfterTheStatusIsLost(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	command := newStateOperation(infrav1.StateOptions{Command: "rm", Args: []infrav1.AddressString{"a.b"}})
	ask(s, command)
	recordRun(g, s, terraform.OperationStateCommand, success)
	for range 12 {
		recordRun(g, s, terraform.OperationPlanAndApply, success)
	}
	surplus := cleanup.SurplusRuns(s.Workspace)
	s.Runs = s.Runs[:len(s.Runs)-len(surplus)]
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	recordAll(g, s)
	g.Expect(command.Status.Phase).To(Equal(infrav1.OperationSucceeded))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.NoRun))
}

// transferred returns a state that a user pulled, at a time before noon.
func transferred(age time.Duration) *corev1.Secret {
	secret := newSecret(objectMeta("capt-output-1-0"))
	secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentTransfer}
	secret.CreationTimestamp = metav1.NewTime(noon.Add(-age))
	return secret
}

func TestReconcile_deletesTransfersInTime(t *testing.T) {
	for name, change := range map[string]func(*testController){
		"applied":          func(c *testController) { c.finish("hello-r1", outputsResult) },
		"while a run runs": func(*testController) {},
		"paused":           func(c *testController) { c.change(paused) },
		"being deleted":    func(c *testController) { c.Expect(c.server.Delete(c.t.Context(), c.get())).To(Succeed()) },
		"deleted and paused": func(c *testController) {
			c.change(paused)
			c.Expect(c.server.Delete(c.t.Context(), c.get())).To(Succeed())
		},
	} {
		for _, age := range []time.Duration{59 * time.Minute, time.Hour} {
			t.Run(name+" "+age.String(), func(t *testing.T) {
				c := newTestController(t, append(values(), newApply(), transferred(age))...)
				c.reconcile()
				change(c)
				result := c.reconcile()
				if age < time.Hour {
					c.Expect(c.secrets()).To(ContainElement("capt-output-1-0"))
					c.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)))
					return
				}
				c.Expect(c.secrets()).NotTo(ContainElement("capt-output-1-0"))
			})
		}
	}
}

func paused(a *infrav1.WorkspaceTemplateApply) {
	a.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
}

// savedIn returns the Secret of the default backend with a version of a state.
func savedIn(g Gomega, lineage string, serial int) *corev1.Secret {
	data, err := record.Compress(fmt.Appendf(nil, `{"version":4,"lineage":%q,"serial":%d,"resources":[{}]}`, lineage, serial))
	g.Expect(err).NotTo(HaveOccurred())
	secret := newSecret(objectMeta("tfstate-default-hello-ws"))
	secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentState}
	secret.Data = map[string][]byte{"tfstate": data}
	secret.Finalizers = []string{record.StateFinalizer}
	return secret
}

// requestMove requests to move the state, as captctl does.
func (c *testController) requestMove(from, to string) {
	c.t.Helper()
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: to}
	})
	c.request(newOperation("move", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: from, To: to}}))
}

// moved applies a workspace with the default backend and moves its state to another.
func moved(t *testing.T, failAt int) *testController {
	elsewhere := &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("elsewhere")}
	elsewhere.Spec.Backend = &infrav1.BackendConfig{Type: "http", Configuration: `address = "http://h/${WORKSPACE_NAME}"`}
	c := newTestController(t, append(values(), elsewhere, newApply(), savedIn(NewWithT(t), "l", 1))...)
	c.failAt = failAt
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.get().Status.State.Backend).To(Equal(terraform.BackendKubernetes))

	c.requestMove("aws", "elsewhere")
	c.reconcile()
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "MoveState"))
	request, err := record.Request(c.runSecret("hello-r2"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Backend.Type).To(Equal("http"))
	c.Expect(request.From.Backend.Type).To(Equal(terraform.BackendKubernetes))
	c.Expect(request.From.State.StateInfo).To(Equal(outputsResult.State))

	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, Phases: []terraform.PhaseTime{{Name: terraform.PhaseWritingState}}})
	c.reconcile()
	c.Expect(c.get().Status.State.Backend).To(Equal(terraform.BackendKubernetes), "the state stays where it is until its copy is verified")
	c.Expect(c.secrets()).To(ContainElement("tfstate-default-hello-ws"))
	c.expect(infrav1.AppliedCondition, "False Retrying")
	c.request(newRunOperation("now"))
	c.reconcile()
	c.Expect(c.runSecret("hello-r3").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "MoveState"), "a failed move is repeated")

	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 2, Resources: 1}})
	c.reconcile()
	c.expectPhase("move", infrav1.OperationSucceeded)
	c.Expect(c.get().Status.State.Backend).To(Equal("http"))
	c.Expect(c.secrets()).NotTo(ContainElement("tfstate-default-hello-ws"), "an outdated state must not be used again")
	c.Expect(c.runSecret("hello-r4").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "PlanAndApply"))
	request, err = record.Request(c.runSecret("hello-r4"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Backend.Type).To(Equal("http"))
	c.Expect(request.State.StateInfo).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 2, Resources: 1}))
	return c
}

func TestReconcile_movesTheState(t *testing.T) {
	for site, numbers := range moved(t, 0).sites {
		if createsRun(site) {
			continue
		}
		for _, failAt := range slices.Compact(numbers[:]) {
			t.Run(fmt.Sprintf("%s, call %d", path.Base(site), failAt), func(t *testing.T) {
				NewWithT(t).Expect(moved(t, failAt).failAt).To(BeZero(), "the call was not made")
			})
		}
	}
}

func TestReconcile_endsAMoveThatHasNothingToDo(t *testing.T) {
	for name, test := range map[string]struct {
		to, config string
		handled    bool
	}{
		"to a config with the same backend":        {"other", "other", true},
		"to the present config":                    {"aws", "aws", true},
		"to another config than that of the spec":  {"other", "aws", false},
		"to a config that does not exist any more": {"missing", "aws", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("other")}, newApply())...)
			c.reconcile()
			c.finish("hello-r1", outputsResult)
			c.reconcile()
			c.requestMove("aws", test.to)
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ProviderConfigRef.Name = test.config })
			c.reconcile()
			c.Expect(c.requested("move").Ended()).To(Equal(test.handled))
			c.Expect(c.get().Status.State.Backend).To(Equal(terraform.BackendKubernetes))
		})
	}
}

func TestReconcile_refusesToMoveFromAnotherBackend(t *testing.T) {
	config := func(name, address string) *infrav1.WorkspaceProviderConfig {
		c := &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta(name)}
		c.Spec.Backend = &infrav1.BackendConfig{Type: "http", Configuration: `address = "` + address + `"`}
		return c
	}
	c := newTestController(t, append(values(), config("a", "http://a"), config("b", "http://b"), config("c", "http://c"), newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "a"}
	}))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.requestMove("b", "c")
	c.reconcile()
	c.Expect(c.expect(infrav1.AppliedCondition, "False InvalidStateCommand")).To(ContainSubstring(`WorkspaceProviderConfig "b" has backend http-`))
	c.Expect(c.started).To(ConsistOf("hello-r1"))
}

func TestPruneMoved(t *testing.T) {
	known := infrav1.StateStatus{Backend: "http", Lineage: "l", Serial: 5, Resources: 1, Confirmation: infrav1.StateConfirmed}
	for name, test := range map[string]struct {
		change  func(*infrav1.StateStatus)
		lineage string
		serial  int
		// left is the prefix of the only Secret afterwards.
		left string
	}{
		"an earlier version":                             {nil, "l", 4, ""},
		"the same version":                               {nil, "l", 5, ""},
		"a later version":                                {nil, "l", 6, "capt-snapshot-hello-r3-"},
		"a state that the user moved":                    {nil, "x", 1, "capt-snapshot-hello-r3-"},
		"the state in use":                               {func(s *infrav1.StateStatus) { s.Backend = terraform.BackendKubernetes }, "l", 5, "tfstate-"},
		"an earlier version, but the other is uncertain": {func(s *infrav1.StateStatus) { s.Confirmation = infrav1.StateUnconfirmed }, "l", 4, "tfstate-"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, newApply(), savedIn(NewWithT(t), test.lineage, test.serial))
			s := newScope("hello")
			s.Apply.Namespace, s.Apply.Name = "n", "hello"
			s.Apply.Status.State = known.DeepCopy()
			if test.change != nil {
				test.change(s.Apply.Status.State)
			}
			s.Apply.Status.Runs = 3
			c.Expect(c.reconciler.build().cleaner.PruneMoved(t.Context(), s.Workspace)).To(Succeed())
			if test.left == "" {
				c.Expect(c.secrets()).To(BeEmpty())
				return
			}
			c.Expect(c.secrets()).To(ConsistOf(HavePrefix(test.left)))
			if strings.HasPrefix(test.left, "capt-snapshot-") {
				var snapshots corev1.SecretList
				c.Expect(c.server.List(t.Context(), &snapshots)).To(Succeed())
				c.Expect(cleanup.SurplusSnapshots(snapshots.Items, 0)).To(BeEmpty(), "it is not pruned")
				text, err := record.Join([]*corev1.Secret{&snapshots.Items[0]})
				c.Expect(err).NotTo(HaveOccurred())
				c.Expect(string(text)).To(ContainSubstring(`"lineage":"` + test.lineage + `"`))
			}
		})
	}
}

func TestPruneMoved_keepsTheStateIfItsSnapshotIsForged(t *testing.T) {
	state := savedIn(NewWithT(t), "x", 1)
	content, err := record.Decompress(state.Data["tfstate"])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	forged := newSecret(objectMeta("capt-" + record.SnapshotName("hello-r3", content) + "-0"))
	c := newTestController(t, newApply(), state, forged)
	s := newScope("hello")
	s.Apply.Status.Runs = 3
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "http", Lineage: "l", Serial: 5, Confirmation: infrav1.StateConfirmed}
	c.Expect(c.reconciler.build().cleaner.PruneMoved(t.Context(), s.Workspace)).To(MatchError(ContainSubstring("has another content")))
	c.Expect(c.secrets()).To(ContainElement("tfstate-default-hello-ws"))
}

// A workspace that is deleted and retained while its state moves leaves no copy.
func TestReconcile_deletesTheMovedStateOnDeletion(t *testing.T) {
	c := moved(t, 0)
	c.Expect(c.server.Create(t.Context(), savedIn(c, "l", 1))).To(Succeed())
	c.finish("hello-r4", terraform.Result{Outcome: terraform.OutcomeNoChanges, State: terraform.StateInfo{Lineage: "l", Serial: 2, Resources: 1}})
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.secrets()).NotTo(ContainElement("tfstate-default-hello-ws"))
}
