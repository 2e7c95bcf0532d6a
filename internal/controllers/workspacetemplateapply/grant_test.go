package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
)

// inPlatform moves a template and its provider config to another namespace.
func inPlatform(objects []client.Object) []client.Object {
	for _, object := range objects {
		switch object.(type) {
		case *infrav1.WorkspaceTemplate, *infrav1.WorkspaceProviderConfig:
			object.SetNamespace("platform")
		}
	}
	return objects
}

func grantTo(namespace string, kinds ...infrav1.GrantedKind) *infrav1.CAPTReferenceGrant {
	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "team"}}
	granted.Spec.From = []infrav1.ReferenceGrantFrom{{Namespaces: []string{namespace}}}
	for _, kind := range kinds {
		granted.Spec.To = append(granted.Spec.To, infrav1.ReferenceGrantTo{Kind: kind})
	}
	return granted
}

// newGrantController returns a workspace whose template is in the namespace platform.
func newGrantController(t *testing.T, change func(*infrav1.WorkspaceProviderConfig)) *testController {
	objects := inPlatform(values())
	for _, object := range objects {
		if config, ok := object.(*infrav1.WorkspaceProviderConfig); ok {
			change(config)
		}
	}
	c := newTestController(t, append(objects, newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Namespace = "platform" }))...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	return c
}

func TestGrant_isRequired(t *testing.T) {
	c := newGrantController(t, func(config *infrav1.WorkspaceProviderConfig) { config.Spec = infrav1.WorkspaceProviderConfigSpec{} })
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(ContainSubstring("WorkspaceTemplate platform/"))
	c.Expect(c.reconciler.tracker.mapGrants(t.Context(), grantTo("n"))).To(ConsistOf(ctrl.Request{NamespacedName: key("hello")}), "a new grant ends the wait")

	granted := grantTo("n", infrav1.GrantedWorkspaceTemplate)
	c.Expect(c.server.Create(t.Context(), granted)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(ContainSubstring("WorkspaceProviderConfig platform/"))
	c.Expect(c.started).To(BeEmpty())

	granted.Spec.To = append(granted.Spec.To, infrav1.ReferenceGrantTo{Kind: infrav1.GrantedWorkspaceProviderConfig})
	c.Expect(c.server.Update(t.Context(), granted)).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(HaveLen(1))
}

func TestGrant_doesNotShareCredentials(t *testing.T) {
	c := newGrantController(t, func(config *infrav1.WorkspaceProviderConfig) {
		config.Spec.Credentials = []infrav1.ProviderCredential{{Env: "TOKEN", SecretRef: infrav1.KeyReference{Name: "token", Key: "token"}}}
	})
	c.Expect(c.server.Create(t.Context(), grantTo("n", infrav1.GrantedWorkspaceTemplate, infrav1.GrantedWorkspaceProviderConfig))).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(ContainSubstring("could read"))
	c.Expect(c.started).To(BeEmpty())
}

func TestGrant_withdrawnStopsRunsAndDestroysNothing(t *testing.T) {
	c := newGrantController(t, func(config *infrav1.WorkspaceProviderConfig) { config.Spec = infrav1.WorkspaceProviderConfigSpec{} })
	granted := grantTo("n", infrav1.GrantedWorkspaceTemplate, infrav1.GrantedWorkspaceProviderConfig)
	c.Expect(c.server.Create(t.Context(), granted)).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	applied := c.get().Status.AppliedInputs
	c.Expect(applied).NotTo(BeEmpty())

	c.Expect(c.server.Delete(t.Context(), granted)).To(Succeed())
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.RunRequestedAnnotation: "now"}
	})
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")
	c.Expect(c.started).To(ConsistOf("hello-r1"), "no other run starts")
	c.Expect(c.get().Status.AppliedInputs).To(Equal(applied))

	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"), "the deletion waits, and destroys nothing")
	c.Expect(c.deleted()).To(BeFalse())
}

func TestGrant_isRequiredToWaitForWorkspaces(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "net", Namespace: "platform"}}
	}))...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")

	c.Expect(c.server.Create(t.Context(), grantTo("n", infrav1.GrantedWorkspaceTemplateApply))).To(Succeed())
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForWorkspace")
}
