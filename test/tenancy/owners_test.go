package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// controlPlane is a reference of a workspace to the control plane that controls it.
func controlPlane() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "controlplane.cluster.x-k8s.io/v1beta1", Kind: "CAPTControlPlane", Name: "prod", UID: "prod-uid",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// owned returns a change of the owners of a workspace.
func owned(refs ...metav1.OwnerReference) func(*infrav1.WorkspaceTemplateApply) {
	return func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = refs }
}

// The garbage collector looks for an owner by its name. If there is none, it deletes the
// workspace, also if the UID is that of an object that exists.
func TestApprover_cannotDeleteByTheNameOfAnOwner(t *testing.T) {
	ns := env.Namespace(t)
	apply := workspace(t, as(t, managerUser), ns, "prod", owned(controlPlane()))
	approver := withRoles(t, ns, "approver", "capt-approver")
	allowed(t, "another change", func() error {
		return patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"x": "y"} })
	})
	another := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		ref := controlPlane()
		change(&ref)
		return ref
	}
	name := another(func(r *metav1.OwnerReference) { r.Name = "none" })
	twice := another(func(r *metav1.OwnerReference) { r.Name, r.Controller = "none", nil })
	for what, refs := range map[string][]metav1.OwnerReference{
		"another name":             {name},
		"two owners with one UID":  {name, twice},
		"a further one":            {controlPlane(), twice},
		"another kind":             {another(func(r *metav1.OwnerReference) { r.Kind = "CAPTCluster" })},
		"another version or group": {another(func(r *metav1.OwnerReference) { r.APIVersion = "v1" })},
	} {
		refused(t, what, patched(approver, apply, owned(refs...)))
	}
}

// The user of a deletion by the garbage collector is not known, so an approver cannot have it
// delete a workspace whose destruction is theirs to approve.
func TestApprover_cannotDestroyAloneByAnOwner(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	self := withRoles(t, ns, "self", "capt-viewer", "capt-editor", "capt-approver", "capt-self-approver")
	apply := workspace(t, editor, ns, "a", nil)
	allowed(t, "another change", func() error {
		return patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"x": "y"} })
	})
	refused(t, "an owner that does not exist", patched(approver, apply, owned(owner(false))))
	created := apply.DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "b", OwnerReferences: []metav1.OwnerReference{owner(false)}}
	err := approver.Create(t.Context(), created.DeepCopy())
	refused(t, "a new workspace with an owner that can be deleted later", err)
	g.Expect(err).To(MatchError(ContainSubstring("as the approver approver requires the permission")), "a controller may not know its own name")
	g.Expect(editor.Create(t.Context(), created.DeepCopy())).To(Succeed(), "a user who does not approve")
	allowed(t, "a self-approver", func() error { return patched(self, apply, owned(owner(false))) })
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(patched(approver, apply, owned())).To(Succeed(), "removing one deletes nothing")
}

// The garbage collector and the manager change owners.
func TestOwners_areChangedByKubernetesAndTheManager(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	manager, gc := as(t, managerUser), as(t, "system:serviceaccount:kube-system:generic-garbage-collector")
	apply := workspace(t, manager, ns, "prod", owned(controlPlane()))
	current := func() *infrav1.WorkspaceTemplateApply {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
		return apply
	}
	unblocked := controlPlane()
	unblocked.BlockOwnerDeletion = new(false)
	g.Expect(patched(gc, current(), owned(unblocked))).To(Succeed(), "a foreground deletion")
	g.Expect(patched(gc, current(), owned())).To(Succeed(), "a deletion with --cascade=orphan")
	g.Expect(patched(manager, current(), owned(controlPlane()))).To(Succeed(), "the manager adopts it")
	g.Expect(patched(manager, current(), owned())).To(Succeed())
}

// CAPT applies the reference of the owner. The list has the UID as its key.
func TestOwners_applyReplacesTwoWithOneUID(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	first, second := controlPlane(), controlPlane()
	first.Name = "none"
	second.Name, second.Controller = "another", nil
	apply := workspace(t, as(t, managerUser), ns, "prod", owned(first, second))
	g.Expect(apply.OwnerReferences).To(HaveLen(2), "the API server allows it")
	body := &unstructured.Unstructured{}
	body.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	body.SetNamespace(ns)
	body.SetName(apply.Name)
	body.SetOwnerReferences([]metav1.OwnerReference{controlPlane()})
	g.Expect(as(t, managerUser).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(body), client.FieldOwner("capt-owner"), client.ForceOwnership)).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(apply.OwnerReferences).To(ConsistOf(controlPlane()))
}

// A cluster whose workspace has another owner, or none, would create all resources again.
func TestEditor_cannotTakeAWorkspaceFromItsOwner(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, as(t, managerUser), ns, "prod", owned(controlPlane(), owner(false)))
	released := controlPlane()
	released.Controller = nil
	allowed(t, "another change", func() error {
		return patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"x": "y"} })
	})
	refused(t, "removing the owner that controls it", patched(editor, apply, owned()))
	refused(t, "an owner that does not control it any more", patched(editor, apply, owned(released, owner(false))))
	g.Expect(patched(editor, apply, owned(controlPlane()))).To(Succeed(), "removing another owner")
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	allowed(t, "an approver", func() error { return patched(approver, apply, owned()) })
}
