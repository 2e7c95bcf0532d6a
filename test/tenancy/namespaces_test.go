package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// A namespace with resources in use is not deleted, whoever asks for it. The policy must not
// look at the workspaces of others, and must not keep a namespace without resources.
func TestNamespace_isNotDeletedBeforeItsResources(t *testing.T) {
	other := env.Namespace(t)
	withStatus(t, other, "other", infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Resources: 1}})
	for name, tc := range map[string]struct {
		status infrav1.WorkspaceTemplateApplyStatus
		owned  bool
		want   string
	}{
		"no resources":       {infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Backend: "kubernetes"}}, false, ""},
		"never applied":      {infrav1.WorkspaceTemplateApplyStatus{}, false, ""},
		"resources":          {infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Resources: 1}}, false, " wsta hello. "},
		"those of a cluster": {infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Resources: 1}}, true, " clusters --all. "},
		"a run that may have created some": {
			infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Confirmation: infrav1.StateUnconfirmed}}, false, " wsta hello. ",
		},
		"a state that a run could not save": {
			infrav1.WorkspaceTemplateApplyStatus{Conditions: []metav1.Condition{{
				Type: infrav1.StateSavedCondition, Status: metav1.ConditionFalse, Reason: infrav1.StateNotMergedReason, LastTransitionTime: metav1.Now(),
			}}}, false, " wsta hello. ",
		},
		"a run": {infrav1.WorkspaceTemplateApplyStatus{Run: &infrav1.RunStatus{ID: "hello-r1", Operation: "Plan", StartedAt: metav1.Now()}}, false, " wsta hello. "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := env.Namespace(t)
			apply := withStatus(t, ns, "hello", tc.status)
			if tc.owned {
				g.Expect(patched(env.Client, apply, func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = []metav1.OwnerReference{owner(true)} })).To(Succeed())
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
			if tc.want == "" {
				g.Expect(env.Client.Delete(t.Context(), namespace)).To(Succeed())
				return
			}
			// The API server reads its policies and their parameters from a cache.
			g.Eventually(func() error { return env.Client.Delete(t.Context(), namespace, client.DryRunAll) }).Should(MatchError(ContainSubstring("kubectl delete --namespace " + ns + tc.want)))
			refused(t, name, env.Client.Delete(t.Context(), namespace))
			apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
			g.Expect(env.Client.Status().Update(t.Context(), latest(t, apply))).To(Succeed())
			g.Eventually(func() error { return env.Client.Delete(t.Context(), namespace) }).Should(Succeed())
		})
	}
	err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})
	NewWithT(t).Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}

func withStatus(t *testing.T, namespace, name string, status infrav1.WorkspaceTemplateApplyStatus) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	apply.Spec.TemplateRef.Name = "x"
	g.Expect(env.Client.Create(t.Context(), apply)).To(Succeed())
	apply.Status = status
	g.Expect(env.Client.Status().Update(t.Context(), apply)).To(Succeed())
	return apply
}

// latest returns an object with the version in the API server, but its status.
func latest(t *testing.T, apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	live := &infrav1.WorkspaceTemplateApply{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), live)).To(Succeed())
	live.Status = apply.Status
	return live
}
