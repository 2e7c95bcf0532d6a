package workspacetemplateapply

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
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
	request := func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.RunRequestedAnnotation: "now"}
	}
	recordWithFailures(t, request, terraform.Result{Outcome: terraform.OutcomeSucceeded}, func(c *testController) {
		history := c.get().Status.History
		c.Expect(history).To(HaveLen(2))
		c.Expect(c.workspaceRun("hello-r2").Spec.RunRecord).To(Equal(history[0]))
	})
}

// The history does not depend on what users see of it.
func TestRecordRun_doesNotRequireThePermissionToShowIt(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, isView := obj.(*infrav1.WorkspaceRun); isView {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "workspaceruns"}, obj.GetName(), errRefused)
			}
			return w.Create(ctx, obj, opts...)
		},
	})
	c.frame = c.reconciler.build().router()
	c.reconcile()
	c.Expect(c.get().Status.History).To(HaveLen(1))
	c.Expect(c.server.Get(t.Context(), key("hello-r1"), &infrav1.WorkspaceRun{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
}
