package workspacetemplateapply

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// inPlatform moves everything but the workspace to another namespace.
func inPlatform(objects []client.Object) []client.Object {
	for _, object := range objects {
		object.SetNamespace("platform")
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

// token is a credential of the provider config that is lent.
const token = "canary-5d41402abc4b"

// newGrantController returns a workspace whose template, provider config and credentials
// are in the namespace platform.
func newGrantController(t *testing.T, granted ...infrav1.GrantedKind) *testController {
	objects := inPlatform(append(values(), &corev1.Secret{ObjectMeta: objectMeta("token"), Data: map[string][]byte{"token": []byte(token)}}))
	for _, object := range objects {
		if config, ok := object.(*infrav1.WorkspaceProviderConfig); ok {
			config.Spec.Credentials = []infrav1.ProviderCredential{{Env: "TOKEN", SecretRef: infrav1.KeyReference{Name: "token", Key: "token"}}}
		}
	}
	if len(granted) > 0 {
		objects = append(objects, grantTo("n", granted...))
	}
	c := newTestController(t, append(objects, newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Namespace = "platform" }))...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	return c
}

// hostKey is the key of the workspace that runs for n/hello.
var hostKey = client.ObjectKey{Namespace: "platform", Name: "n.hello"}

// host reconciles the workspace and the one that runs for it.
func (c *testController) host() {
	c.t.Helper()
	c.reconcile()
	c.reconcileKey(hostKey)
	c.reconcile()
}

func (c *testController) hosted() *infrav1.WorkspaceTemplateApply {
	c.t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	c.Expect(c.server.Get(c.t.Context(), hostKey, apply)).To(Succeed())
	return apply
}

// ofHost returns an operation of the workspace that runs for n/hello, as a user of its namespace
// requests it.
func (c *testController) ofHost(o *infrav1.WorkspaceOperation) *infrav1.WorkspaceOperation {
	c.t.Helper()
	o.Namespace, o.UID, o.Spec.Workspace, o.Spec.WorkspaceUID = hostKey.Namespace, "host-"+o.UID, hostKey.Name, c.hosted().UID
	return o
}

func (c *testController) finishHosted(id string, result terraform.Result) {
	c.t.Helper()
	secret := &corev1.Secret{}
	c.Expect(c.server.Get(c.t.Context(), client.ObjectKey{Namespace: "platform", Name: record.SecretName(id)}, secret)).To(Succeed())
	result.RunID, result.StartedAt, result.FinishedAt = id, noon, noon
	result.Operation = terraform.Operation(secret.Annotations[record.OperationAnnotation])
	c.Expect(record.SetResult(secret, &result)).To(Succeed())
	c.Expect(c.server.Update(c.t.Context(), secret)).To(Succeed())
}

// both are the kinds that a workspace needs whose provider config is lent.
var both = []infrav1.GrantedKind{infrav1.GrantedWorkspaceTemplate, infrav1.GrantedWorkspaceProviderConfig}

func TestGrant_isRequired(t *testing.T) {
	c := newGrantController(t)
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(ContainSubstring("WorkspaceTemplate platform/"))
	c.Expect(c.reconciler.tracker.MapGrants(t.Context(), grantTo("n"))).To(ConsistOf(ctrl.Request{NamespacedName: key("hello")}), "a new grant ends the wait")

	granted := grantTo("n", infrav1.GrantedWorkspaceTemplate)
	c.Expect(c.server.Create(t.Context(), granted)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(ContainSubstring("WorkspaceProviderConfig platform/"))
	c.reconcileKey(hostKey)
	c.Expect(c.started).To(BeEmpty())

	granted.Spec.To = append(granted.Spec.To, infrav1.ReferenceGrantTo{Kind: infrav1.GrantedWorkspaceProviderConfig})
	c.Expect(c.server.Update(t.Context(), granted)).To(Succeed())
	c.host()
	c.Expect(c.started).To(HaveLen(1))
}

// The run, with its credentials, is where the users of the workspace cannot read it.
func TestGrant_lendsCredentialsToRunsOnly(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	c.Expect(c.started).To(ConsistOf("n.hello-r1"))
	c.Expect(c.expect(infrav1.AppliedCondition, "False RunInProgress")).To(ContainSubstring("n.hello-r1"))
	c.Expect(c.get().Status.Run.ID).To(Equal("n.hello-r1"))
	c.Expect(c.get().Annotations).To(HaveKeyWithValue(infrav1.HostedInAnnotation, "platform"))

	c.finishHosted("n.hello-r1", outputsResult)
	c.reconcileKey(hostKey)
	c.host()
	c.expect(infrav1.ReadyCondition, "True Ready")
	c.Expect(c.get().Status.AppliedAt).NotTo(BeZero())
	c.Expect(c.get().Status.Runs).To(BeZero())
	c.Expect(c.get().Status.Host).To(HaveValue(Equal(infrav1.ObjectReference{Namespace: "platform", Name: "n.hello"})))
	source := &infrav1.OutputsSource{
		TemplateRef:       infrav1.ObjectReference{Namespace: "platform", Name: "vpc"},
		ProviderConfigRef: &infrav1.ObjectReference{Namespace: "platform", Name: "aws"},
	}
	c.Expect(c.get().Status.OutputsSource).To(Equal(source))
	c.Expect(c.hosted().Status.OutputsSource).To(Equal(source))
	var readable corev1.SecretList
	c.Expect(c.server.List(t.Context(), &readable, client.InNamespace("n"))).To(Succeed())
	c.Expect(readable.Items).To(HaveLen(1))
	c.Expect(readable.Items[0].Name).To(Equal("hello-connection"))
	c.Expect(readable.Items[0].Data).To(Equal(map[string][]byte{"id": []byte("vpc-1")}))
	seen, err := json.Marshal([]any{c.get(), readable})
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(string(seen)).NotTo(ContainSubstring(token))

	t.Log("a change and a deletion of the workspace reach the one that runs for it")
	c.request(newRunOperation("now"))
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = []infrav1.ProtectPattern{"aws_vpc.main"} })
	c.host()
	c.Expect(c.started).To(ConsistOf("n.hello-r1", "n.hello-r2"))
	c.Expect(template.GuestRequirements(c.hosted()).Protect).To(HaveLen(1))
	c.finishHosted("n.hello-r2", outputsResult)
	c.reconcileKey(hostKey)
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.host()
	c.expect(infrav1.DestroyedCondition, "False RunInProgress")
	c.Expect(c.started).To(ContainElement("n.hello-r3"))
	c.finishHosted("n.hello-r3", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	c.reconcileKey(hostKey)
	c.reconcileKey(hostKey)
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.secrets()).To(ConsistOf("values", "token"))
}

func TestGrant_withdrawnStopsRunsAndDestroysNothing(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	c.finishHosted("n.hello-r1", outputsResult)
	c.reconcileKey(hostKey)
	c.host()
	applied := c.get().Status.AppliedInputs
	c.Expect(applied).NotTo(BeEmpty())

	c.Expect(c.server.Delete(t.Context(), grantTo("n"))).To(Succeed())
	c.request(newRunOperation("now"))
	c.host()
	c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")
	c.request(c.ofHost(newRunOperation("now")))
	c.host()
	c.Expect(meta.FindStatusCondition(c.hosted().Status.Conditions, infrav1.DependenciesReadyCondition).Reason).To(Equal(infrav1.NotGrantedReason))
	c.Expect(c.started).To(ConsistOf("n.hello-r1"), "no other run starts")
	c.Expect(c.get().Status.AppliedInputs).To(Equal(applied))
	c.Expect(c.secrets()).To(ContainElement("hello-connection"))

	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.host()
	c.Expect(c.started).To(ConsistOf("n.hello-r1"), "the deletion waits, and destroys nothing")
	c.expect(infrav1.DestroyedCondition, "False NotGranted")
	c.Expect(c.deleted()).To(BeFalse())
}

// foreignTemplate returns a controller with a workspace of the namespace n whose template is
// that of another namespace, and is granted. Everything else is in the namespace n.
func foreignTemplate(t *testing.T, change func(*infrav1.WorkspaceTemplate), objects ...client.Object) *testController {
	foreign := newTemplate()
	foreign.Namespace = "platform"
	change(foreign)
	objects = append(objects, values()[2:]...)
	objects = append(objects, foreign, grantTo("n", infrav1.GrantedWorkspaceTemplate),
		newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Namespace = "platform" }))
	c := newTestController(t, objects...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	return c
}

// An editor who writes templates in another namespace must not read Secrets here with them.
func TestGrant_foreignTemplateReadsNothingHere(t *testing.T) {
	reference := &infrav1.KeyReference{Name: "values", Key: "k"}
	for name, tc := range map[string]struct {
		names   infrav1.EnvVar
		kind    infrav1.GrantedKind
		another infrav1.GrantedKind
	}{
		"Secret":    {infrav1.EnvVar{Name: "A", SecretKeyReference: reference}, infrav1.GrantedSecret, infrav1.GrantedConfigMap},
		"ConfigMap": {infrav1.EnvVar{Name: "A", ConfigMapKeyReference: reference}, infrav1.GrantedConfigMap, infrav1.GrantedSecret},
	} {
		t.Run(name, func(t *testing.T) {
			c := foreignTemplate(t, func(w *infrav1.WorkspaceTemplate) {
				w.Spec.Template.Spec.ProviderConfigRef = nil
				w.Spec.Template.Spec.ForProvider.Env = []infrav1.EnvVar{tc.names}
			})
			agreed := grantTo("platform", tc.another)
			agreed.Namespace = "n"
			agreed.Spec.To = append(agreed.Spec.To, infrav1.ReferenceGrantTo{Kind: tc.kind, Name: "other"})
			c.Expect(c.server.Create(t.Context(), agreed)).To(Succeed())
			c.reconcile()
			c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(And(
				HavePrefix(name+" n/values is in another namespace and not granted to namespace platform: "),
				ContainSubstring("CAPTReferenceGrant in namespace n")))
			c.Expect(c.started).To(BeEmpty())
			c.Expect(c.reconciler.tracker.MapGrants(t.Context(), agreed)).To(ConsistOf(ctrl.Request{NamespacedName: key("hello")}), "a grant of this namespace ends the wait")

			agreed.Spec.To[1].Name = "values"
			c.Expect(c.server.Update(t.Context(), agreed)).To(Succeed())
			c.reconcile()
			c.Expect(c.started).To(ConsistOf("hello-r1"))
		})
	}
}

// An editor must not run modules of another namespace with the credentials of this one.
func TestGrant_foreignTemplateUsesNoProviderConfigHere(t *testing.T) {
	named := func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	}
	for name, change := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"named by the workspace": named,
		"named by the template":  func(*infrav1.WorkspaceTemplateApply) {},
	} {
		t.Run(name, func(t *testing.T) {
			config := &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")}
			config.Spec.TemplateNamespaces = []string{"other"}
			c := foreignTemplate(t, func(w *infrav1.WorkspaceTemplate) { w.Spec.Template.Spec.ForProvider.Env = nil }, config)
			c.change(change)
			c.reconcile()
			c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False NotGranted")).To(Equal(
				"WorkspaceProviderConfig n/aws may not be used with WorkspaceTemplate platform/vpc, which is in another namespace: add platform to spec.templateNamespaces of the config, or use a template of namespace n"))
			c.Expect(c.started).To(BeEmpty())

			config.Spec.TemplateNamespaces = []string{"other", "platform"}
			c.Expect(c.server.Update(t.Context(), config)).To(Succeed())
			c.reconcile()
			c.Expect(c.started).To(ConsistOf("hello-r1"))
		})
	}

	t.Log("nor with the account that all runs of the namespace have by default")
	c := foreignTemplate(t, func(w *infrav1.WorkspaceTemplate) {
		w.Spec.Template.Spec.ProviderConfigRef, w.Spec.Template.Spec.ForProvider.Env = nil, nil
	})
	c.reconciler.Limits.DefaultServiceAccount = "cloud"
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
	request, err := record.Request(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Pod.ServiceAccountName).To(BeEmpty())
}

// A user who may write a workspace must not run it under the name of another one.
func TestGrant_hostingIsNotForged(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.HostedForAnnotation: "victim/hello"}
	}))...)
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False NotAllowed")
	c.Expect(c.started).To(BeEmpty())

	t.Log("nor with the name that CAPT would give it")
	forged, victim := newApply(), newApply()
	forged.Name, forged.UID, forged.Annotations = "victim.hello", "forged", map[string]string{infrav1.HostedForAnnotation: "victim/hello"}
	victim.Namespace, victim.UID = "victim", "victim"
	c = newTestController(t, append(values(), forged, victim)...)
	c.reconcileKey(client.ObjectKeyFromObject(forged))
	c.Expect(c.server.Get(t.Context(), client.ObjectKeyFromObject(forged), forged)).To(Succeed())
	c.Expect(meta.FindStatusCondition(forged.Status.Conditions, infrav1.DependenciesReadyCondition)).To(HaveValue(HaveField("Reason", infrav1.NotAllowedReason)))
	c.Expect(c.started).To(BeEmpty())

	t.Log("nor a workspace of another namespace that exists already")
	c = newGrantController(t, both...)
	taken := newApply()
	taken.Namespace, taken.Name, taken.UID = "platform", "n.hello", "other"
	c.Expect(c.server.Create(t.Context(), taken)).To(Succeed())
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False NotAllowed")
	c.Expect(c.hosted().Spec).To(Equal(taken.Spec))
}

// The state stays where it is, whatever provider configs appear and vanish.
func TestGrant_stateDoesNotMove(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	own := &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")}
	c.Expect(c.server.Create(t.Context(), own)).To(Succeed())
	c.host()
	c.Expect(c.started).To(ConsistOf("n.hello-r1"))

	t.Log("a workspace that has lost its host, for example after a move, does not start again")
	hosted := c.hosted()
	hosted.Finalizers = nil
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), hosted)).To(Succeed())
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False StateMissing")

	t.Log("its deletion does not pass as a destruction")
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	for range 2 {
		c.reconcile()
		c.Expect(c.expect(infrav1.DestroyedCondition, "False StateMissing")).To(ContainSubstring("retainWorkspaceOnDelete"))
	}
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	for range 2 {
		if !c.deleted() {
			c.reconcile()
		}
	}
	c.Expect(c.deleted()).To(BeTrue())

	t.Log("one with runs of its own stays in its namespace")
	c = newTestController(t, append(values(), newApply())...)
	c.reconciler.Grants = &grant.Checker{Client: c.server, Live: c.server}
	c.reconcile()
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.HostedInAnnotation: "platform"}
	})
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
	c.expect(infrav1.AppliedCondition, "False RunInProgress")
}

// What the platform sets to protect the resources outlives the deletion by the team.
func TestGrant_deletionKeepsTheProtectionOfTheHost(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	hosted := c.hosted()
	hosted.Spec.DestroyApproval, hosted.Spec.RetainWorkspaceOnDelete, hosted.Spec.Protect = infrav1.ApprovalManual, true, []infrav1.ProtectPattern{"aws_vpc"}
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations[clusterv1.PausedAnnotation] = ""
	})
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.change(func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, clusterv1.PausedAnnotation) })
	c.reconcile()
	c.reconcile()
	hosted = c.hosted()
	c.Expect(hosted.DeletionTimestamp.IsZero()).To(BeFalse())
	c.Expect(hosted.Spec.DestroyApproval).To(Equal(infrav1.ApprovalManual))
	c.Expect(hosted.Spec.RetainWorkspaceOnDelete).To(BeTrue())
	c.Expect(hosted.Spec.Protect).To(ContainElement(infrav1.ProtectPattern("aws_vpc")))
	c.Expect(hosted.Annotations).NotTo(HaveKey(clusterv1.PausedAnnotation))
}

// The team can require approval, but not switch off what the platform requires on the host.
func TestGrant_teamCannotSwitchOffTheApprovalOfTheHost(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	hosted := c.hosted()
	hosted.Spec.Approval, hosted.Spec.DestroyApproval = infrav1.ApprovalManual, infrav1.ApprovalManual
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval, a.Spec.DestroyApproval = infrav1.ApprovalAuto, infrav1.ApprovalAuto
	})
	c.reconcile()
	c.Expect(c.hosted().Spec).To(And(HaveField("Approval", infrav1.ApprovalManual), HaveField("DestroyApproval", infrav1.ApprovalManual)))

	t.Log("what the team requires itself, it can withdraw")
	hosted = c.hosted()
	hosted.Spec.Approval, hosted.Spec.DestroyApproval = "", ""
	c.Expect(c.server.Update(t.Context(), hosted)).To(Succeed())
	policy := func() template.Policy {
		return template.PolicyOf(template.Sources{Template: &infrav1.WorkspaceTemplate{}, Apply: c.hosted()})
	}
	for mode, want := range map[infrav1.ApprovalMode]infrav1.ApprovalMode{infrav1.ApprovalManual: infrav1.ApprovalManual, "": infrav1.ApprovalAuto} {
		c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval, a.Spec.DestroyApproval = mode, mode })
		c.reconcile()
		c.Expect(policy()).To(And(HaveField("Approval", want), HaveField("DestroyApproval", want)))
	}
}

// A change of a field to the value that it has makes no one its owner, so the platform must not
// depend on who set it first.
func TestGrant_teamCannotSwitchOffWhatBothRequire(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	require := func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval, a.Spec.DestroyApproval, a.Spec.Protect = infrav1.ApprovalManual, infrav1.ApprovalManual, []infrav1.ProtectPattern{"aws_vpc"}
	}
	c.change(require)
	c.reconcile()
	hosted := c.hosted()
	before := hosted.DeepCopy()
	require(hosted)
	c.Expect(c.server.Patch(t.Context(), hosted, client.MergeFrom(before))).To(Succeed())
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval, a.Spec.DestroyApproval, a.Spec.Protect = infrav1.ApprovalAuto, infrav1.ApprovalAuto, nil
	})
	c.reconcile()
	c.Expect(c.hosted().Spec).To(And(HaveField("Approval", infrav1.ApprovalManual), HaveField("DestroyApproval", infrav1.ApprovalManual),
		HaveField("Protect", ConsistOf(infrav1.ProtectPattern("aws_vpc")))))
	c.Expect(c.hosted().Annotations).NotTo(HaveKey(template.GuestRequirementsAnnotation))
}

// A paused workspace pauses the one that runs for it.
func TestGrant_pauses(t *testing.T) {
	c := newGrantController(t, both...)
	c.host()
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[clusterv1.PausedAnnotation] = "" })
	c.reconcile()
	c.Expect(c.hosted().Annotations).To(HaveKey(clusterv1.PausedAnnotation))
	c.change(func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, clusterv1.PausedAnnotation) })
	c.reconcile()
	c.reconcile()
	c.Expect(c.hosted().Annotations).NotTo(HaveKey(clusterv1.PausedAnnotation))
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
