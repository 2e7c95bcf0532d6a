package tenancy

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const (
	plan        = "plan-0123456789abcdef"
	anotherPlan = "plan-fedcba9876543210"
)

// workspace creates a workspace as a user.
func workspace(t *testing.T, c client.Client, namespace, name string, change func(*infrav1.WorkspaceTemplateApply)) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.TemplateReference{Name: "vpc"}, Approval: infrav1.ApprovalManual, Protect: []infrav1.ProtectPattern{"aws_vpc"},
		},
	}
	if change != nil {
		change(apply)
	}
	allowed(t, "creating a workspace", func() error { return c.Create(t.Context(), apply) })
	showPlan(t, apply, nil)
	return apply
}

// showPlan sets the plan in the status of a workspace, with the one-shot operation that it
// belongs to, if any.
func showPlan(t *testing.T, apply *infrav1.WorkspaceTemplateApply, request *infrav1.RunRequest) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	apply.Status.Plan = &infrav1.PlanStatus{ID: plan, Waiting: new(true), Request: request}
	g.Expect(env.Client.Status().Update(t.Context(), apply)).To(Succeed())
}

func TestEditor_cannotApprove(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", nil)
	approve := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }

	refused(t, "approving", patched(editor, apply, approve))
	created := apply.DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "b"}
	approve(created)
	refused(t, "creating an approved workspace", editor.Create(t.Context(), created))

	allowed(t, "an approver", func() error { return patched(approver, apply, approve) })
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(infrav1.ApprovalOf(apply)).To(HaveValue(And(HaveField("Plan", plan), HaveField("By", "approver"))))
	g.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.ChangedByAnnotation, "editor"))

	g.Expect(patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Timeout = &metav1.Duration{Duration: 60e9}
		a.Annotations[infrav1.ChangedByAnnotation], a.Annotations[infrav1.ApprovedByAnnotation] = "mallory", plan+" 2020-01-01T00:00:00Z mallory"
	})).To(Succeed(), "a change keeps the approval of the plan, which new inputs replace")
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(infrav1.ApprovalOf(apply)).To(HaveValue(HaveField("By", "approver")), "forged annotations are replaced")
	g.Expect(apply.Annotations).To(HaveKeyWithValue(infrav1.ChangedByAnnotation, "editor"))
	refused(t, "approving another plan", patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = anotherPlan }))
	g.Expect(patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = "" })).To(Succeed(), "withdrawing")
}

func TestApprover_cannotApproveHisOwnChange(t *testing.T) {
	ns := env.Namespace(t)
	approver := approver(t, ns)
	apply := workspace(t, approver, ns, "a", nil)
	approve := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }

	refused(t, "his own workspace", patched(approver, apply, approve))
	created := apply.DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "b"}
	approve(created)
	refused(t, "a new workspace", approver.Create(t.Context(), created))
	refused(t, "change and approval at once", patched(as(t, "approver"), apply, func(a *infrav1.WorkspaceTemplateApply) {
		approve(a)
		a.Spec.Timeout = &metav1.Duration{Duration: 60e9}
	}))

	// The workspace runs for one of another namespace, which he changed.
	hosted := workspace(t, as(t, managerUser), ns, "team.a", func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{"capt.appthrust.io/changed-by-guest": "approver"}
	})
	refused(t, "his own change of the guest", patched(approver, hosted, approve))

	withRoles(t, ns, "approver", "capt-self-approver")
	allowed(t, "with permission", func() error { return patched(approver, apply, approve) })
	allowed(t, "with permission", func() error { return patched(approver, hosted, approve) })
}

func TestApprover_cannotApproveTheChangeOfAnUnknownUser(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	exempt(t, ns)
	var apply *infrav1.WorkspaceTemplateApply
	g.Eventually(func() map[string]string {
		apply = &infrav1.WorkspaceTemplateApply{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "a-"},
			Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "vpc"}},
		}
		g.Expect(editor.Create(t.Context(), apply)).To(Succeed())
		return apply.Annotations
	}).ShouldNot(HaveKey(infrav1.ChangedByAnnotation), "the webhooks are not called")
	showPlan(t, apply, nil)
	approve := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }

	refused(t, "the change of an unknown user", patched(approver, apply, approve))
	withRoles(t, ns, "approver", "capt-self-approver")
	allowed(t, "with permission", func() error { return patched(approver, apply, approve) })
}

func TestApprover_cannotApproveHisOwnOneShotOperation(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", nil)
	approve := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }
	showPlan(t, apply, &infrav1.RunRequest{ID: "1", Arguments: "--replace aws_vpc.this", RequestedBy: "approver"})
	refused(t, "his own operation", patched(approver, apply, approve))
	refused(t, "a plan that the status does not show", patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = anotherPlan }))

	showPlan(t, apply, &infrav1.RunRequest{ID: "1", Arguments: "--replace aws_vpc.this", RequestedBy: "ada"})
	allowed(t, "the operation of another user", func() error { return patched(approver, apply, approve) })
	g.Expect(patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = "" })).To(Succeed())
	showPlan(t, apply, nil)
	allowed(t, "the plan of the inputs", func() error { return patched(approver, apply, approve) })
}

func TestEditor_cannotSwitchApprovalOff(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	selfApprover := withRoles(t, ns, "self", "capt-viewer", "capt-editor", "capt-approver", "capt-self-approver")
	strict := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DestroyApproval = infrav1.ApprovalManual }
	apply := workspace(t, editor, ns, "a", strict)
	for what, change := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"Auto":                  func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalAuto },
		"the template's":        func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = "" },
		"unprotected resource":  func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = nil },
		"Auto for the deletion": func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DestroyApproval = infrav1.ApprovalAuto },
	} {
		withVariables := func(a *infrav1.WorkspaceTemplateApply) {
			change(a)
			a.Spec.Variables = map[string]infrav1.Value{"x": infrav1.StringValue("y")}
		}
		refused(t, what, patched(editor, apply, change))
		allowed(t, "another change", func() error {
			return patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"x": "y"} })
		})
		refused(t, what+", by an approver with his own change", patched(approver, apply, withVariables))
		refused(t, what+", by an approver before his own change", patched(approver, apply, change))
		allowed(t, what, func() error { return patched(selfApprover, apply, withVariables) })
		g.Expect(env.Client.Delete(t.Context(), apply)).To(Succeed())
		apply = workspace(t, editor, ns, "a", strict)
	}
	g.Expect(env.Client.Delete(t.Context(), apply)).To(Succeed())
	apply = workspace(t, editor, ns, "a", nil)
	open := workspace(t, editor, ns, "b", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = "" })
	refused(t, "a template without approval", patched(editor, open, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" }))
	refused(t, "a template whose deletion needs no approval", patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" }))
	g.Expect(patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.TemplateRef.Name, a.Spec.DestroyApproval = "other", infrav1.ApprovalManual
	})).To(Succeed(), "its plans wait for approval")
	g.Expect(patched(editor, open, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval, a.Spec.Variables = infrav1.ApprovalManual, map[string]infrav1.Value{"x": infrav1.StringValue("y")}
	})).To(Succeed())
}

// CAPT sets in a workspace what its owner requires, and not what it no longer requires.
func TestEditor_cannotSwitchApprovalOffInAnOwner(t *testing.T) {
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	selfApprover := withRoles(t, ns, "self", "capt-viewer", "capt-editor", "capt-approver", "capt-self-approver")
	template := map[string]any{"name": "vpc"}
	machine := map[string]any{"clusterName": "a", "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"workspaceTemplateRef": template},
	}}
	infra, controlPlane := infrav1.GroupVersion, schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1"}
	for kind, c := range map[string]struct {
		group schema.GroupVersion
		spec  map[string]any
		path  []string
	}{
		"CAPTCluster":           {infra, map[string]any{"vpcTemplateRef": template}, nil},
		"CAPTControlPlane":      {controlPlane, map[string]any{"version": "v1.34.0", "workspaceTemplateRef": template}, nil},
		"CAPTMachine":           {infra, map[string]any{"workspaceTemplateRef": template}, nil},
		"CAPTMachinePool":       {infra, map[string]any{"workspaceTemplateRef": template}, nil},
		"CAPTMachineSet":        {infra, machine, []string{"template", "spec"}},
		"CAPTMachineDeployment": {infra, machine, []string{"template", "spec"}},
	} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			path := append(append([]string{"spec"}, c.path...), "workspace")
			owner := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(c.spec)}}
			owner.SetGroupVersionKind(c.group.WithKind(kind))
			owner.SetNamespace(ns)
			owner.SetName("a")
			strict := map[string]any{"approval": "Manual", "destroyApproval": "Manual", "protect": []any{"aws_vpc", "aws_eks_cluster"}}
			g.Expect(unstructured.SetNestedMap(owner.Object, strict, path...)).To(Succeed())
			allowed(t, "creating", func() error { return editor.Create(t.Context(), owner) })
			require := func(field string, value any) func(*unstructured.Unstructured) {
				return func(o *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(o.Object, value, append(slices.Clone(path), field)...)
				}
			}
			for what, change := range map[string]func(*unstructured.Unstructured){
				"nothing":              func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, path...) },
				"no approval":          require("approval", "Auto"),
				"no approved deletion": require("destroyApproval", "Auto"),
				"less protection":      require("protect", []any{"aws_vpc"}),
			} {
				refused(t, what, patched(editor, owner, change))
				refused(t, what+", by an approver", patched(approver, owner, change))
			}
			g.Expect(patched(editor, owner, require("protect", []any{"aws_eks_cluster", "aws_vpc", "aws_subnet"}))).To(Succeed(), "more protection")
			g.Expect(patched(editor, owner, require("retry", map[string]any{"limit": int64(1)}))).To(Succeed(), "another setting")
			allowed(t, "a self-approver", func() error { return patched(selfApprover, owner, require("approval", "Auto")) })
			owned := func(o *unstructured.Unstructured) {
				o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: new(true)}})
			}
			g.Expect(patched(editor, owner, owned)).To(Succeed(), "its owners do not decide about approval")
		})
	}
}

// Kubernetes deletes an object whose owners do not exist, and the deletion of a workspace
// destroys its resources.
func TestEditor_cannotDeleteByAnOwnerWithoutThePermission(t *testing.T) {
	ns := env.Namespace(t)
	editor := editor(t, ns)
	apply := workspace(t, editor, ns, "a", nil)
	writer := withRules(t, ns, "writer", rbacv1.PolicyRule{
		APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspacetemplateapplies"}, Verbs: []string{"get", "update", "patch"},
	})
	own := func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = append(a.OwnerReferences, owner(false)) }
	allowed(t, "another change", func() error {
		return patched(writer, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"x": "y"} })
	})
	refused(t, "an owner that does not exist", patched(writer, apply, own))
	NewWithT(t).Expect(patched(editor, apply, own)).To(Succeed(), "a user who may delete it")
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	NewWithT(t).Expect(patched(writer, apply, func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = nil })).To(Succeed(), "removing one deletes nothing")
}

func TestViewer_changesNothing(t *testing.T) {
	ns := env.Namespace(t)
	apply := workspace(t, editor(t, ns), ns, "a", nil)
	viewer := viewer(t, ns)
	allowed(t, "reading", func() error { return viewer.Get(t.Context(), client.ObjectKeyFromObject(apply), apply) })
	for what, err := range map[string]error{
		"changing": patched(viewer, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = "" }),
		"creating": viewer.Create(t.Context(), &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "b"}, Spec: apply.Spec}),
		"deleting": viewer.Delete(t.Context(), apply),
	} {
		NewWithT(t).Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
}

// Each kind has a reader and a writer among the roles, and no role of users writes status,
// finalizers or what belongs to others.
func TestRoles_coverEveryKindAndNothingElse(t *testing.T) {
	g := NewWithT(t)
	role := func(name string) []rbacv1.PolicyRule {
		var role rbacv1.ClusterRole
		g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &role)).To(Succeed())
		return role.Rules
	}
	grants := func(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
		})
	}
	crds := &unstructured.UnstructuredList{}
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	g.Expect(env.Client.List(t.Context(), crds)).To(Succeed())
	writers := slices.Concat(role("capt-editor"), role("capt-platform-editor"), role("capt-policy-editor"))
	all := slices.Concat(writers, role("capt-viewer"), role("capt-approver"), role("capt-self-approver"))
	// CAPT writes the plans and runs. Nobody changes requests, or deletes decisions.
	written := []string{"workspaceplans", "workspaceruns"}
	requests := map[string]string{"workspaceoperations": "capt-editor", "workspaceapprovals": "capt-approver"}
	kinds := 0
	for i := range crds.Items {
		plural, group, _ := strings.Cut(crds.Items[i].GetName(), ".")
		if !strings.HasPrefix(plural, "capt") && !strings.HasPrefix(plural, "workspace") && !strings.HasPrefix(plural, "clusterworkspace") {
			continue
		}
		kinds++
		g.Expect(grants(role("capt-viewer"), group, plural, "watch")).To(BeTrue(), "viewer of %s", plural)
		if slices.Contains(written, plural) || requests[plural] != "" {
			g.Expect(grants(all, group, plural, "patch") || grants(all, group, plural, "update")).To(BeFalse(), "writer of %s", plural)
			for _, verb := range []string{"create", "delete"} {
				creator := requests[plural]
				if plural == "workspaceapprovals" && verb == "delete" {
					creator = "" // It may be the rejection of one's own change.
				}
				g.Expect(grants(all, group, plural, verb)).To(Equal(creator != ""), "%s of %s", verb, plural)
				g.Expect(creator == "" || grants(role(creator), group, plural, verb)).To(BeTrue(), "%s of %s", verb, plural)
			}
			continue
		}
		g.Expect(grants(writers, group, plural, "patch")).To(BeTrue(), "writer of %s", plural)
	}
	g.Expect(kinds).To(BeNumerically(">=", 20))
	for _, name := range []string{"capt-viewer", "capt-editor", "capt-platform-editor", "capt-approver", "capt-self-approver", "capt-policy-editor"} {
		for _, rule := range role(name) {
			for _, resource := range rule.Resources {
				g.Expect(resource).NotTo(Or(Equal("*"), HaveSuffix("/status"), HaveSuffix("/finalizers"), Equal("secrets")), name)
			}
			g.Expect(rule.Verbs).NotTo(ContainElement("*"), name)
		}
	}
	for resource, verb := range map[string]string{
		"workspacetemplates": "update", "workspaceproviderconfigs": "update", "workspaceapprovals": "create", "workspaceoperations/state": "create",
	} {
		g.Expect(grants(role("capt-editor"), infrav1.GroupVersion.Group, resource, verb)).To(BeFalse(), resource)
	}
}
