package usage_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/usage"
)

func TestWait_listsAFewUsers(t *testing.T) {
	tests := []struct {
		users  int
		suffix string
	}{
		{users: 1, suffix: "first: team-a/w0"},
		{users: 5, suffix: "first: team-a/w0, team-a/w1, team-a/w2, team-a/w3, team-a/w4"},
		{users: 7, suffix: "team-a/w4 and 2 more"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.users), func(t *testing.T) {
			g := NewWithT(t)
			var users []client.ObjectKey
			for i := range tt.users {
				users = append(users, client.ObjectKey{Namespace: "team-a", Name: fmt.Sprintf("w%d", i)})
			}

			waiting, ok := fault.AsWaiting(usage.Wait(users))

			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.InUseReason))
			g.Expect(waiting.Message()).To(HaveSuffix(tt.suffix))
		})
	}
}

func TestWait_isNilWithoutUsers(t *testing.T) {
	NewWithT(t).Expect(usage.Wait(nil)).To(Succeed())
}

func TestTemplateChanged(t *testing.T) {
	tests := []struct {
		name string
		ref  infrav1.TemplateReference
		want bool
	}{
		{"same", infrav1.TemplateReference{Name: "network"}, false},
		{"same with its namespace", infrav1.TemplateReference{Name: "network", Namespace: "team-a"}, false},
		{"another name", infrav1.TemplateReference{Name: "eks"}, true},
		{"another namespace", infrav1.TemplateReference{Name: "network", Namespace: "library"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			previous := &infrav1.WorkspaceTemplateApply{}
			previous.Namespace, previous.Spec.TemplateRef.Name = "team-a", "network"
			current := previous.DeepCopy()
			current.Spec.TemplateRef = tt.ref

			NewWithT(t).Expect(usage.TemplateChanged(previous, current)).To(Equal(tt.want))
		})
	}
}

func TestOfProviderConfig_countsStatesThatMoveAway(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*infrav1.WorkspaceOperation)
		used   bool
	}{
		"requested":           {func(*infrav1.WorkspaceOperation) {}, true},
		"running":             {func(o *infrav1.WorkspaceOperation) { o.Status.Phase = infrav1.OperationRunning }, true},
		"failed so far":       {func(o *infrav1.WorkspaceOperation) { o.Status.Phase = infrav1.OperationPending }, true},
		"succeeded":           {func(o *infrav1.WorkspaceOperation) { o.Status.Phase = infrav1.OperationSucceeded }, false},
		"of an earlier one":   {func(o *infrav1.WorkspaceOperation) { o.Status.Phase = infrav1.OperationCanceled }, false},
		"from another config": {func(o *infrav1.WorkspaceOperation) { o.Spec.Move.From = "other" }, false},
		"to the config":       {func(o *infrav1.WorkspaceOperation) { o.Spec.Move.From, o.Spec.Move.To = "other", "aws" }, false},
		"of another workspace": {func(o *infrav1.WorkspaceOperation) {
			o.Spec.Workspace = "gone"
		}, false},
		"in another namespace": {func(o *infrav1.WorkspaceOperation) { o.Namespace = "team-b" }, false},
		"another operation": {func(o *infrav1.WorkspaceOperation) {
			o.Spec.Type, o.Spec.Move = infrav1.OperationRun, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(infrav1.AddToScheme(scheme)).To(Succeed())
			workspace := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "w"}}
			workspace.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "gcp"}
			move := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "move"}}
			move.Spec = infrav1.WorkspaceOperationSpec{Workspace: "w", Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "aws", To: "gcp"}}
			tt.change(move)
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(workspace, move).Build()

			users, err := usage.Finder{Cache: reader, Live: reader}.OfProviderConfig(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "aws"})

			g.Expect(err).NotTo(HaveOccurred())
			if !tt.used {
				g.Expect(users).To(BeEmpty())
				return
			}
			g.Expect(users).To(Equal([]client.ObjectKey{{Namespace: "team-a", Name: "w"}}))
		})
	}
}

// The cache may not have the operation yet, and a deletion cannot be undone.
func TestOfProviderConfig_readsMovesFromTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(infrav1.AddToScheme(scheme)).To(Succeed())
	workspace := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "w"}}
	workspace.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "gcp"}
	move := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "move"}}
	move.Spec = infrav1.WorkspaceOperationSpec{Workspace: "w", Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "aws", To: "gcp"}}
	stale := fake.NewClientBuilder().WithScheme(scheme).WithObjects(workspace).Build()
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(workspace, move).Build()
	g.Expect(usage.Finder{Cache: stale, Live: live}.OfProviderConfig(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "aws"})).To(HaveLen(1))
}
