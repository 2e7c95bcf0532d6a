package workspacetemplate

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/usage"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

// granted has the namespaces to which all templates are granted.
var granted sync.Map

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithManager(func(mgr ctrl.Manager) error {
		if err := usage.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
			return err
		}
		return (&Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("capt-template"), Now: time.Now,
			Usage: usage.Finder{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Granted: func(_ context.Context, namespace string, _ client.ObjectKey) (bool, error) {
				_, granted := granted.Load(namespace)
				return granted, nil
			}},
		}).SetupWithManager(mgr, controller.Options{})
	})))
}

// emptyModule is a module without blocks.
const emptyModule = "# Nothing."

func create(t *testing.T, obj client.Object) {
	t.Helper()
	NewWithT(t).Expect(env.Client.Create(t.Context(), obj)).To(Succeed())
}

func newTemplate(t *testing.T, namespace, name, text string) *infrav1.WorkspaceTemplate {
	t.Helper()
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: text}
	create(t, template)
	return template
}

func newApply(t *testing.T, namespace, name string, template infrav1.TemplateReference) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: template},
	}
	create(t, apply)
	return apply
}

func waitFor(t *testing.T, template *infrav1.WorkspaceTemplate, condition string, status metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
		found := meta.FindStatusCondition(template.Status.Conditions, condition)
		g.Expect(found).NotTo(BeNil())
		g.Expect(found.Status).To(Equal(status), "%s: %s", found.Reason, found.Message)
		g.Expect(found.ObservedGeneration).To(Equal(template.Generation))
		c = *found
	}).Should(Succeed(), "%s of %s is not %s", condition, template.Name, status)
	return c
}

func waitForDeletion(t *testing.T, obj client.Object) {
	t.Helper()
	objecttest.New(t, env.Client).WaitUntilGone(obj, obj.GetName()+" still exists")
}

func TestTemplate_reportsItsModule(t *testing.T) {
	g := NewWithT(t)
	template := newTemplate(t, env.Namespace(t), "network", "variable \"name\" {\n")

	c := waitFor(t, template, infrav1.ModuleValidCondition, metav1.ConditionFalse)
	g.Expect(c.Reason).To(Equal(infrav1.ModuleInvalidReason))
	g.Expect(c.Message).To(HavePrefix("main.tf:1: "))
	g.Expect(meta.IsStatusConditionFalse(template.Status.Conditions, infrav1.ReadyCondition)).To(BeTrue())

	objecttest.New(t, env.Client).Update(template, func() {
		template.Spec.Template.Spec.ForProvider.Module = "variable \"name\" {}\n"
	})

	waitFor(t, template, infrav1.ModuleValidCondition, metav1.ConditionTrue)
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)
	g.Expect(template.Status.Variables).To(ConsistOf(HaveField("Name", "name")))
	g.Expect(template.Status.ObservedGeneration).To(Equal(template.Generation))
}

func TestTemplate_limitsTheReportedVariables(t *testing.T) {
	text := ""
	for i := range 600 {
		text += "variable \"v" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\" {}\n"
	}
	template := newTemplate(t, env.Namespace(t), "wide", text)

	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	NewWithT(t).Expect(template.Status.Variables).To(HaveLen(512))
}

func TestTemplate_isDeletedIfUnused(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	template := newTemplate(t, namespace, "unused", emptyModule)
	newTemplate(t, namespace, "other", emptyModule)
	newApply(t, namespace, "elsewhere", infrav1.TemplateReference{Name: "other"})
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	g.Expect(env.Client.Delete(t.Context(), template)).To(Succeed())

	waitForDeletion(t, template)
}

func TestTemplate_isNotDeletedWhileWorkspacesUseIt(t *testing.T) {
	g := NewWithT(t)
	home, away, stranger := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	granted.Store(away, true)
	template := newTemplate(t, home, "shared", emptyModule)
	newApply(t, stranger, "stranger", infrav1.TemplateReference{Name: "shared", Namespace: home})
	newTemplate(t, home, "next", emptyModule)
	local := newApply(t, home, "local", infrav1.TemplateReference{Name: "shared"})
	remote := newApply(t, away, "remote", infrav1.TemplateReference{Name: "shared", Namespace: home})
	newApply(t, away, "namesake", infrav1.TemplateReference{Name: "shared"})
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	g.Expect(env.Client.Delete(t.Context(), template)).To(Succeed())

	c := waitFor(t, template, infrav1.DeletableCondition, metav1.ConditionFalse)
	g.Expect(c.Reason).To(Equal(infrav1.InUseReason))
	g.Expect(c.Message).To(And(ContainSubstring(home+"/local"), ContainSubstring(away+"/remote"), Not(ContainSubstring("namesake")), Not(ContainSubstring("stranger"))))
	ready := meta.FindStatusCondition(template.Status.Conditions, infrav1.ReadyCondition)
	g.Expect(ready).To(HaveField("Reason", infrav1.DeletingReason))

	g.Expect(env.Client.Delete(t.Context(), remote)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
		found := meta.FindStatusCondition(template.Status.Conditions, infrav1.DeletableCondition)
		g.Expect(found.Message).To(HaveSuffix(home + "/local"))
	}).Should(Succeed(), "one workspace still uses it")

	objecttest.New(t, env.Client).Update(local, func() { local.Spec.TemplateRef.Name = "next" })
	waitForDeletion(t, template)
}

// Each user may name a template of others. What has been applied with it keeps it, also without
// a grant.
func TestTemplate_isNotKeptByWorkspacesWithoutAGrant(t *testing.T) {
	g := NewWithT(t)
	home, stranger := env.Namespace(t), env.Namespace(t)
	template, used := newTemplate(t, home, "shared", emptyModule), newTemplate(t, home, "used", emptyModule)
	newApply(t, stranger, "names", infrav1.TemplateReference{Name: "shared", Namespace: home})
	applied := newApply(t, stranger, "applied", infrav1.TemplateReference{Name: "used", Namespace: home})
	applied.Status.OutputsSource = &infrav1.OutputsSource{TemplateRef: infrav1.ObjectReference{Namespace: home, Name: "used"}}
	g.Expect(env.Client.Status().Update(t.Context(), applied)).To(Succeed())
	for _, obj := range []*infrav1.WorkspaceTemplate{template, used} {
		waitFor(t, obj, infrav1.ReadyCondition, metav1.ConditionTrue)
		g.Expect(env.Client.Delete(t.Context(), obj)).To(Succeed())
	}
	waitForDeletion(t, template)
	c := waitFor(t, used, infrav1.DeletableCondition, metav1.ConditionFalse)
	g.Expect(c.Message).To(HaveSuffix(stranger + "/applied"))
	g.Expect(env.Client.Delete(t.Context(), applied)).To(Succeed())
	waitForDeletion(t, used)
}

// A run that has started may have created resources, although it failed and has no outputs. Who has
// a state of another template, and names this one without a grant, does not keep it.
func TestTemplate_isKeptByAFailedFirstApply(t *testing.T) {
	g := NewWithT(t)
	home, team := env.Namespace(t), env.Namespace(t)
	used, named := newTemplate(t, home, "used", emptyModule), newTemplate(t, home, "named", emptyModule)
	failed := newApply(t, team, "failed", infrav1.TemplateReference{Name: "used", Namespace: home})
	failed.Status.State = &infrav1.StateStatus{Resources: 1, TemplateRef: &infrav1.ObjectReference{Namespace: home, Name: "used"}}
	attacker := newApply(t, team, "attacker", infrav1.TemplateReference{Name: "named", Namespace: home})
	attacker.Status.State = &infrav1.StateStatus{Resources: 1, TemplateRef: &infrav1.ObjectReference{Namespace: team, Name: "named"}}
	for _, apply := range []*infrav1.WorkspaceTemplateApply{failed, attacker} {
		g.Expect(env.Client.Status().Update(t.Context(), apply)).To(Succeed())
	}
	for _, obj := range []*infrav1.WorkspaceTemplate{used, named} {
		waitFor(t, obj, infrav1.ReadyCondition, metav1.ConditionTrue)
		g.Expect(env.Client.Delete(t.Context(), obj)).To(Succeed())
	}
	waitForDeletion(t, named)
	c := waitFor(t, used, infrav1.DeletableCondition, metav1.ConditionFalse)
	g.Expect(c.Message).To(HaveSuffix(team + "/failed"))
	failed.Status.State.Resources = 0
	g.Expect(env.Client.Status().Update(t.Context(), failed)).To(Succeed())
	waitForDeletion(t, used)
}

func TestTemplate_doesNotInspectWhilePaused(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: env.Namespace(t), Name: "paused", Annotations: map[string]string{"cluster.x-k8s.io/paused": ""},
	}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "output {"}
	create(t, template)

	waitFor(t, template, infrav1.PausedCondition, metav1.ConditionTrue)
	g.Expect(meta.FindStatusCondition(template.Status.Conditions, infrav1.ModuleValidCondition)).To(BeNil())
}

func TestTransitionEvents(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	no, yes := metav1.ConditionFalse, metav1.ConditionTrue
	tests := []struct {
		name              string
		condition         string
		previous, current metav1.ConditionStatus
		kind, action      string
	}{
		{"invalid", infrav1.ModuleValidCondition, "", no, warning, "Inspect"},
		{"valid after a problem", infrav1.ModuleValidCondition, no, yes, normal, "Inspect"},
		{"valid at first", infrav1.ModuleValidCondition, "", yes, none, ""},
		{"deletion waits", infrav1.DeletableCondition, "", no, warning, "Delete"},
		{"deletion continues", infrav1.DeletableCondition, no, yes, none, ""},
		{"Ready repeats the others", clusterv1.ReadyCondition, yes, no, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := transitionEvents.Event(
				metav1.Condition{Type: tt.condition, Status: tt.previous},
				metav1.Condition{Type: tt.condition, Status: tt.current, Reason: "Reason"},
			)
			g.Expect(ok).To(Equal(tt.kind != none))
			g.Expect(event.Type).To(Equal(tt.kind))
			g.Expect(event.Action).To(Equal(tt.action))
		})
	}
}

func scopeOf(source infrav1.ModuleSource, module string) *scope {
	template := &infrav1.WorkspaceTemplate{}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: source, Module: module}
	return &scope{template: template}
}

func TestModule_stallsOnAnInvalidModule(t *testing.T) {
	g := NewWithT(t)

	stalled, ok := fault.AsStalled(module(t.Context(), scopeOf(infrav1.ModuleSourceInline, "variable \"name\" {\n")))

	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Reason).To(Equal(infrav1.ModuleInvalidReason))
	g.Expect(stalled.Message()).To(HavePrefix("main.tf:1: Unclosed configuration block"))
}

func TestModule_reportsHowItIsInspected(t *testing.T) {
	g := NewWithT(t)

	inline := scopeOf(infrav1.ModuleSourceInline, `variable "name" {}`)
	g.Expect(module(t.Context(), inline)).To(Succeed())
	g.Expect(inline.template.Status.Variables).To(ConsistOf(HaveField("Name", "name")))
	g.Expect(moduleReason(inline)).To(Equal("Inspected"))
	g.Expect(moduleMessage(inline)).To(BeEmpty())

	remote := scopeOf(infrav1.ModuleSourceRemote, "git::https://example.com/network.git")
	g.Expect(module(t.Context(), remote)).To(Succeed())
	g.Expect(moduleReason(remote)).To(Equal("InspectedByRun"))
	g.Expect(moduleMessage(remote)).To(ContainSubstring("the run that fetches it"))
}
