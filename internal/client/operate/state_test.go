package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func config(name string) *infrav1.WorkspaceProviderConfig {
	return &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
}

// templated returns a workspace and its template, which uses the config aws.
func templated() (*infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplate) {
	apply := workspace("net")
	apply.Spec.TemplateRef.Name = "vpc"
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vpc"}}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	return apply, template
}

func TestRequestMove(t *testing.T) {
	g := NewWithT(t)
	apply, template := templated()
	c := newClient(apply, template, config("aws"), config("aws-s3"))

	_, err := RequestMove(t.Context(), c, apply, "aws-s4", false)
	g.Expect(err).To(MatchError(`namespace team has no WorkspaceProviderConfig aws-s4: did you mean "aws-s3"?`))

	move, err := RequestMove(t.Context(), c, apply, "aws-s3", true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(move.Spec.Move).To(Equal(&infrav1.MoveOptions{From: "aws", To: "aws-s3"}))
	g.Expect(apply.Spec.ProviderConfigRef.Name).To(Equal("aws-s3"))
	g.Expect(move.Spec.Hold).To(BeTrue())
	g.Expect(apply.Spec.Approval).To(BeEmpty())

	// The first move has not been executed: the state is still in the first backend.
	back, err := RequestMove(t.Context(), c, apply, "", false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(back.Spec.Move).To(Equal(&infrav1.MoveOptions{From: "aws", To: "aws"}))
	g.Expect(apply.Spec.ProviderConfigRef).To(BeNil())
	open, err := operations(t.Context(), c, apply, openOf(infrav1.OperationMove))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(open).To(HaveLen(1), "the first one is replaced")
	g.Expect(open[0].Name).To(Equal(back.Name))
}

func TestRequestMove_leavesNothingBehind(t *testing.T) {
	g := NewWithT(t)
	apply, template := templated()
	c := newClient(apply, template, config("aws"), config("aws-s3"))
	refuse := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("no")
		},
	})
	_, err := RequestMove(t.Context(), refuse, apply, "aws-s3", false)
	g.Expect(err).To(MatchError(HaveSuffix("no")))
	open, err := operations(t.Context(), c, apply, openOf(infrav1.OperationMove))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(open).To(BeEmpty())
}

func TestMoved(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*infrav1.WorkspaceTemplateApply)
		phase  infrav1.OperationPhase
		moved  bool
		err    string
	}{
		"requested": {change: func(*infrav1.WorkspaceTemplateApply) {}},
		"moved":     {change: func(*infrav1.WorkspaceTemplateApply) {}, phase: infrav1.OperationSucceeded, moved: true},
		"canceled":  {change: func(*infrav1.WorkspaceTemplateApply) {}, phase: infrav1.OperationCanceled, err: "Canceled: No."},
		"running": {change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Run, a.Status.Failure = &infrav1.RunStatus{}, &infrav1.FailureStatus{Inputs: "move 1"}
		}},
		"failed": {change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Failure = &infrav1.FailureStatus{Inputs: "move 1", Reason: "RunFailed", Message: "It is full."}
		}, err: "the state was not moved and is still in backend kubernetes: RunFailed: It is full. Fix the cause and run captctl reconcile net, or give up with captctl state migrate-backend net --to-default"},
		"retried": {change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Failure = &infrav1.FailureStatus{Inputs: "move 1", NextAt: metav1.Now()}
		}},
		"failed before": {change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.Failure = &infrav1.FailureStatus{Inputs: "hash"} }},
		"refused": {change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Generation = 2
			a.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: "False", Reason: infrav1.InvalidStateCommandReason, Message: "No.", ObservedGeneration: 2}}
		}, err: "InvalidStateCommand: No."},
		"refused before": {change: func(a *infrav1.WorkspaceTemplateApply) {
			a.Generation = 2
			a.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: "False", Reason: infrav1.InvalidStateCommandReason, Message: "No.", ObservedGeneration: 1}}
		}},
		"reverted": {change: func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ProviderConfigRef.Name = "aws" }, err: "spec.providerConfigRef was changed to aws"},
		"deleted": {change: func(a *infrav1.WorkspaceTemplateApply) {
			now := metav1.Now()
			a.DeletionTimestamp = &now
		}},
		"refused while it is deleted": {change: func(a *infrav1.WorkspaceTemplateApply) {
			now := metav1.Now()
			a.DeletionTimestamp = &now
			a.Status.Conditions = []metav1.Condition{{Type: infrav1.DestroyedCondition, Status: "False", Reason: infrav1.InvalidStateCommandReason, Message: "No."}}
		}, err: "InvalidStateCommand: No."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := workspace("net")
			apply.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws-s3"}
			apply.Status.State = &infrav1.StateStatus{Backend: terraform.BackendKubernetes}
			test.change(apply)
			operation := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
			operation.Spec.Move = &infrav1.MoveOptions{To: "aws-s3"}
			operation.Status = infrav1.WorkspaceOperationStatus{Phase: test.phase, Message: "No."}
			moved, err := Moved(apply, operation)
			g.Expect(moved).To(Equal(test.moved))
			if test.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.err)))
		})
	}
}

func TestOutput_isThatOfTheRun(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	key, err := record.NewKey()
	g.Expect(err).NotTo(HaveOccurred())
	sealed, err := record.Seal(key.Public(), []byte("the state"))
	g.Expect(err).NotTo(HaveOccurred())
	// A user who can read the command can read its public key, too.
	forged, err := record.Seal(key.Public(), []byte("another state"))
	g.Expect(err).NotTo(HaveOccurred())
	sum := sha256.Sum256(sealed)
	result := &terraform.Result{RunID: "net-r1", OutputDigest: hex.EncodeToString(sum[:])}
	for id, content := range map[string][]byte{"a": sealed, "b": forged} {
		c := newClient(apply)
		g.Expect(upload(t.Context(), c, apply, record.OutputName(id), content)).To(Succeed())
		text, err := Output(t.Context(), c, apply, &terraform.StateCommand{ID: id}, result, key)
		if id == "b" {
			g.Expect(err).To(MatchError("the output in Secret capt-output-b-0 is not the one that run net-r1 stored"))
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(text)).To(Equal("the state"))
	}
}

func TestStateChanges_ofAWorkspaceThatIsDeleted(t *testing.T) {
	for _, retained := range []bool{false, true} {
		t.Run(fmt.Sprint("retained ", retained), func(t *testing.T) {
			g := NewWithT(t)
			apply, template := templated()
			apply.Finalizers, apply.Spec.RetainWorkspaceOnDelete = []string{"keep"}, retained
			now := metav1.Now()
			apply.DeletionTimestamp = &now
			c := newClient(apply, template, config("aws"))
			_, moveErr := RequestMove(t.Context(), c, apply.DeepCopy(), "aws", false)
			_, pushErr := RequestCommand(t.Context(), c, apply.DeepCopy(), &terraform.StateCommand{Command: terraform.StatePush}, []byte("{}"), false)
			_, restoreErr := Restore(t.Context(), c, apply.DeepCopy(), Snapshot{Name: "x"}, false)
			for name, err := range map[string]error{"push": pushErr, "restore": restoreErr, "move": moveErr} {
				if retained {
					g.Expect(err).To(MatchError(ContainSubstring("does not use its state any more")), name)
				} else {
					g.Expect(err).NotTo(HaveOccurred(), name)
				}
			}
		})
	}
}
