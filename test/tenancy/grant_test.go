package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Cluster API copies the spec of a template to the namespace of a Cluster.
func TestClassTemplate_refersToItsOwnNamespace(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	template := &infrav1.CAPTClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "class"}}
	template.Spec.Template.Spec.Region = "eu-west-1"
	template.Spec.Template.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"}
	g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
	g.Expect(template.Spec.Template.Spec.VPCTemplateRef.Namespace).To(Equal(ns))
	g.Expect(patched(env.Client, template, func(c *infrav1.CAPTClusterTemplate) { c.Labels = map[string]string{"a": "b"} })).To(Succeed())

	elsewhere := template.DeepCopy()
	elsewhere.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "other"}
	elsewhere.Spec.Template.Spec.VPCTemplateRef.Namespace = "platform"
	g.Expect(env.Client.Create(t.Context(), elsewhere)).To(Succeed())
	g.Expect(elsewhere.Spec.Template.Spec.VPCTemplateRef.Namespace).To(Equal("platform"))

	copied := template.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "copy", Labels: map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}}
	copied.Spec.Template.Spec.VPCTemplateRef.Namespace = ""
	g.Expect(env.Client.Create(t.Context(), copied)).To(Succeed())
	g.Expect(copied.Spec.Template.Spec.VPCTemplateRef.Namespace).To(BeEmpty(), "Cluster API compares it with its source")
}

// A grant lends what its writer does not own alone, so editors do not write it.
func TestEditor_cannotGrant(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "g"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}}, To: []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}},
	}}
	err := editor(t, ns).Create(t.Context(), granted.DeepCopy())
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	allowed(t, "a platform editor", func() error {
		return withRoles(t, ns, "platform", "capt-platform-editor").Create(t.Context(), granted.DeepCopy(), client.DryRunAll)
	})
	for what, from := range map[string]infrav1.ReferenceGrantFrom{
		"neither": {}, "both": {Namespaces: []string{"a"}, NamespaceSelector: &metav1.LabelSelector{}},
	} {
		invalid := granted.DeepCopy()
		invalid.Spec.From = []infrav1.ReferenceGrantFrom{from}
		g.Expect(apierrors.IsInvalid(env.Client.Create(t.Context(), invalid))).To(BeTrue(), what)
	}
}

// A grant for add-ons needs no object of the other namespace: CAPT installs the add-ons in the
// clusters there, as their administrator.
func TestPlatformEditor_cannotInstallAddonsInOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	team := withRoles(t, ns, "team-admin", "capt-viewer", "capt-platform-editor")
	grant := func(name string, kinds ...infrav1.GrantedKind) *infrav1.CAPTReferenceGrant {
		granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: infrav1.CAPTReferenceGrantSpec{
			From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"victim"}}},
		}}
		for _, kind := range kinds {
			granted.Spec.To = append(granted.Spec.To, infrav1.ReferenceGrantTo{Kind: kind})
		}
		return granted
	}
	templates := grant("templates", infrav1.GrantedWorkspaceTemplate)
	allowed(t, "a grant that others have to use", func() error { return team.Create(t.Context(), templates) })
	refused(t, "add-ons", team.Create(t.Context(), grant("addons", infrav1.GrantedCAPTAddon)))
	refused(t, "add-ons among others", team.Create(t.Context(), grant("both", infrav1.GrantedWorkspaceTemplate, infrav1.GrantedCAPTAddon)))
	all := grant("selected", infrav1.GrantedCAPTAddon)
	all.Spec.From = []infrav1.ReferenceGrantFrom{{NamespaceSelector: &metav1.LabelSelector{}}}
	refused(t, "all namespaces", team.Create(t.Context(), all))
	addAddons := func(granted *infrav1.CAPTReferenceGrant) {
		granted.Spec.To = append(granted.Spec.To, infrav1.ReferenceGrantTo{Kind: infrav1.GrantedCAPTAddon})
	}
	refused(t, "a change of a grant", patched(team, templates, addAddons))

	lent := grant("lent", infrav1.GrantedCAPTAddon)
	g.Expect(env.Client.Create(t.Context(), lent)).To(Succeed(), "an administrator of all namespaces")
	g.Expect(patched(team, lent, func(granted *infrav1.CAPTReferenceGrant) { granted.Labels = map[string]string{"a": "b"} })).To(Succeed(), "nothing more is lent")
	refused(t, "another namespace in a grant of an administrator", patched(team, lent, func(granted *infrav1.CAPTReferenceGrant) {
		granted.Spec.From[0].Namespaces = []string{"victim", "another"}
	}))
	g.Expect(team.Delete(t.Context(), lent)).To(Succeed())
}

// Where a workspace runs, and for which one, is decided by the manager.
func TestEditor_cannotMoveAWorkspaceToAnotherHost(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver, manager := editor(t, ns), approver(t, ns), as(t, managerUser)
	apply := workspace(t, editor, ns, "a", nil)
	host := func(name, value string) func(*infrav1.WorkspaceTemplateApply) {
		return func(a *infrav1.WorkspaceTemplateApply) {
			if value == "" {
				delete(a.Annotations, name)
				return
			}
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, name, value)
		}
	}
	allowed(t, "an approver", func() error {
		return patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"a": "b"} })
	})
	for name, value := range map[string]string{
		infrav1.HostedInAnnotation: "platform", infrav1.HostedForAnnotation: "victim/a",
		"capt.appthrust.io/changed-by-guest": "mallory", "capt.appthrust.io/required-by-guest": "{}",
	} {
		created := apply.DeepCopy()
		created.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "b", Annotations: map[string]string{name: value}}
		refused(t, name, editor.Create(t.Context(), created))
		refused(t, name, patched(editor, apply, host(name, value)))
		refused(t, name, patched(approver, apply, host(name, value)))
		allowed(t, name, func() error { return patched(manager, apply, host(name, value)) })
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
		refused(t, name, patched(editor, apply, host(name, "")))
		refused(t, name, patched(editor, apply, host(name, "other")))
	}
	g.Expect(patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"x": infrav1.StringValue("y")}
	})).To(Succeed(), "other changes")
}

// The author of a lent template decides which variables its borrowers set.
func TestEditor_setsOnlyVariablesThatATemplateLends(t *testing.T) {
	g := NewWithT(t)
	platform, ns := env.Namespace(t), env.Namespace(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "vpc"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: `variable "name" {}`}
	template.Spec.Lending = &infrav1.TemplateLending{Variables: []string{"name"}}
	g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
	editor := editor(t, ns)
	set := func(names ...string) func(*infrav1.WorkspaceTemplateApply) {
		return func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.TemplateRef.Namespace, a.Spec.Variables = platform, map[string]infrav1.Value{}
			for _, name := range names {
				a.Spec.Variables[name] = infrav1.StringValue("x")
			}
		}
	}
	apply := workspace(t, editor, ns, "a", set("name"))
	refusal := MatchError(ContainSubstring("spec.lending.variables"))
	created := apply.DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "b"}
	set("name", "role_arn")(created)
	g.Eventually(func() error { return editor.Create(t.Context(), created.DeepCopy(), client.DryRunAll) }, testTimeout).Should(refusal, "the webhook reads templates from a cache")
	g.Expect(patched(editor, apply, set("name", "role_arn"))).To(refusal)
	g.Expect(patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"a": "b"} })).To(Succeed())
}
