package workspacetemplate

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/rollout"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// fleet is a template with stages and one workspace that has applied its first module.
type fleet struct {
	*WithT
	t         *testing.T
	objects   *objecttest.Tester
	template  *infrav1.WorkspaceTemplate
	workspace *infrav1.WorkspaceTemplateApply
	first     string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	namespace := env.Namespace(t)
	f := &fleet{WithT: NewWithT(t), t: t, objects: objecttest.New(t, env.Client), template: newTemplate(t, namespace, "network", emptyModule)}
	f.workspace = newApply(t, namespace, "w", infrav1.TemplateReference{Name: "network"})
	f.objects.Update(f.template, func() {
		f.template.Spec.Rollout = &infrav1.TemplateRollout{Stages: []infrav1.RolloutStage{
			{Name: "approved", Selector: &metav1.LabelSelector{}, Paused: new(true)},
		}}
	})
	waitFor(t, f.template, infrav1.RolledOutCondition, metav1.ConditionTrue)
	f.first = f.template.Status.Rollout.Revision
	f.waitAssigned(f.first)
	f.workspace.Status.AppliedAt = metav1.Now()
	f.workspace.Status.TemplateRevision = f.first
	f.Expect(env.Client.Status().Update(t.Context(), f.workspace)).To(Succeed())
	return f
}

func (f *fleet) waitAssigned(revision string) {
	f.t.Helper()
	f.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.workspace), f.workspace)).To(Succeed())
		g.Expect(f.workspace.Annotations).To(HaveKeyWithValue(infrav1.TemplateRevisionAnnotation, revision))
	}).Should(Succeed())
}

// change changes the module.
func (f *fleet) change(module string) {
	f.t.Helper()
	f.objects.Update(f.template, func() { f.template.Spec.Template.Spec.ForProvider.Module = module })
}

func (f *fleet) revisionExists(name string) error {
	return env.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.template.Namespace, Name: name}, &appsv1.ControllerRevision{})
}

// kubectl replace, and GitOps tools that replace objects, remove the annotation.
func TestRollout_keepsTheModuleOfAWorkspaceWhoseAnnotationsAreReplaced(t *testing.T) {
	f := newFleet(t)
	f.change("# Changed.")
	c := waitFor(t, f.template, infrav1.RolledOutCondition, metav1.ConditionFalse)
	f.Expect(c.Reason).To(Equal(infrav1.RolloutPausedReason))

	f.objects.Update(f.workspace, func() { f.workspace.Annotations = nil })

	f.waitAssigned(f.first)
}

// A workspace that is being deleted destroys with the module that it has.
func TestRollout_keepsTheModuleOfAWorkspaceThatIsBeingDeleted(t *testing.T) {
	f := newFleet(t)
	f.objects.Update(f.workspace, func() { controllerutil.AddFinalizer(f.workspace, "example.com/test") })
	f.Expect(env.Client.Delete(t.Context(), f.workspace)).To(Succeed())

	for _, module := range []string{"# Second.", "# Third."} {
		f.change(module)
		waitFor(t, f.template, infrav1.RolledOutCondition, metav1.ConditionTrue)
		revision, err := rollout.NewRevision(f.template)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.template.Status.Rollout.Revision).To(Equal(revision.Name))
	}

	f.Expect(f.revisionExists(f.first)).To(Succeed())
	f.objects.Update(f.workspace, func() { f.workspace.Finalizers = nil })
}
