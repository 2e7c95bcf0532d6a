package workspacetemplate

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/usage"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithManager(func(mgr ctrl.Manager) error {
		if err := usage.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
			return err
		}
		return (&Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("capt-template"),
			Usage: usage.Finder{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
		}).SetupWithManager(mgr, controller.Options{})
	})))
}

// nothing is the smallest module.
const nothing = "# Nothing."

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

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
	}, patience, 50*time.Millisecond).Should(Succeed(), "%s of %s is to be %s", condition, template.Name, status)
	return c
}

func waitGone(t *testing.T, obj client.Object) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, patience, 50*time.Millisecond).Should(BeTrue(), "%s is to go", obj.GetName())
}

func TestTemplate_followsItsModule(t *testing.T) {
	g := NewWithT(t)
	template := newTemplate(t, env.Namespace(t), "network", "variable \"name\" {\n")

	c := waitFor(t, template, infrav1.ModuleValidCondition, metav1.ConditionFalse)
	g.Expect(c.Reason).To(Equal(infrav1.ModuleInvalidReason))
	g.Expect(c.Message).To(HavePrefix("main.tf:1: "))
	g.Expect(meta.IsStatusConditionFalse(template.Status.Conditions, infrav1.ReadyCondition)).To(BeTrue())

	template.Spec.Template.Spec.ForProvider.Module = "variable \"name\" {}\n"
	g.Expect(env.Client.Update(t.Context(), template)).To(Succeed())

	waitFor(t, template, infrav1.ModuleValidCondition, metav1.ConditionTrue)
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)
	g.Expect(template.Status.Variables).To(ConsistOf(HaveField("Name", "name")))
	g.Expect(template.Status.ObservedGeneration).To(Equal(template.Generation))
}

func TestTemplate_takesAsMuchAsTheAPIDoes(t *testing.T) {
	text := ""
	for i := range 600 {
		text += "variable \"v" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\" {}\n"
	}
	template := newTemplate(t, env.Namespace(t), "wide", text)

	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	NewWithT(t).Expect(template.Status.Variables).To(HaveLen(512))
}

func TestTemplate_goesAtOnceWhenUnused(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	template := newTemplate(t, namespace, "unused", nothing)
	newTemplate(t, namespace, "other", nothing)
	newApply(t, namespace, "elsewhere", infrav1.TemplateReference{Name: "other"})
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	g.Expect(env.Client.Delete(t.Context(), template)).To(Succeed())

	waitGone(t, template)
}

func TestTemplate_staysWhileWorkspacesUseIt(t *testing.T) {
	g := NewWithT(t)
	home, away := env.Namespace(t), env.Namespace(t)
	template := newTemplate(t, home, "shared", nothing)
	newTemplate(t, home, "next", nothing)
	beside := newApply(t, home, "beside", infrav1.TemplateReference{Name: "shared"})
	afar := newApply(t, away, "afar", infrav1.TemplateReference{Name: "shared", Namespace: home})
	newApply(t, away, "namesake", infrav1.TemplateReference{Name: "shared"})
	waitFor(t, template, infrav1.ReadyCondition, metav1.ConditionTrue)

	g.Expect(env.Client.Delete(t.Context(), template)).To(Succeed())

	c := waitFor(t, template, infrav1.DeletableCondition, metav1.ConditionFalse)
	g.Expect(c.Reason).To(Equal(infrav1.InUseReason))
	g.Expect(c.Message).To(And(ContainSubstring(home+"/beside"), ContainSubstring(away+"/afar"), Not(ContainSubstring("namesake"))))
	ready := meta.FindStatusCondition(template.Status.Conditions, infrav1.ReadyCondition)
	g.Expect(ready).To(HaveField("Reason", infrav1.DeletingReason))

	g.Expect(env.Client.Delete(t.Context(), afar)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
		found := meta.FindStatusCondition(template.Status.Conditions, infrav1.DeletableCondition)
		g.Expect(found.Message).To(HaveSuffix(home + "/beside"))
	}, patience, 50*time.Millisecond).Should(Succeed(), "one workspace is left")

	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(beside), beside)).To(Succeed())
	beside.Spec.TemplateRef.Name = "next"
	g.Expect(env.Client.Update(t.Context(), beside)).To(Succeed())
	waitGone(t, template)
}

func TestTemplate_leavesPausedAlone(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: env.Namespace(t), Name: "paused", Annotations: map[string]string{"cluster.x-k8s.io/paused": ""},
	}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "output {"}
	create(t, template)

	waitFor(t, template, infrav1.PausedCondition, metav1.ConditionTrue)
	g.Expect(meta.FindStatusCondition(template.Status.Conditions, infrav1.ModuleValidCondition)).To(BeNil())
}
