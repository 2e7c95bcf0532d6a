package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }

func TestTracker_bringsBackWhoLooksAtAnObject(t *testing.T) {
	g := NewWithT(t)
	tracker := newTracker()
	woken := func(kind, namespace, name string) (names []string) {
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, request := range tracker.mapTo(kind)(t.Context(), obj) {
			names = append(names, request.Name)
		}
		return names
	}
	secret, other := reference{"Secret", key("s")}, reference{"Secret", key("other")}

	tracker.set(key("a"), []reference{secret, secret, {"ConfigMap", key("s")}})
	tracker.set(key("b"), []reference{secret})
	g.Expect(woken("Secret", "n", "s")).To(ConsistOf("a", "b"))
	g.Expect(woken("ConfigMap", "n", "s")).To(ConsistOf("a"))
	g.Expect(woken("Secret", "elsewhere", "s")).To(BeEmpty())
	g.Expect(woken("Secret", "n", "absent")).To(BeEmpty())
	g.Expect(woken("WorkspaceTemplate", "n", "s")).To(BeEmpty())

	tracker.set(key("a"), []reference{other})
	g.Expect(woken("Secret", "n", "s")).To(ConsistOf("b"), "what is no longer looked at is forgotten")
	g.Expect(woken("ConfigMap", "n", "s")).To(BeEmpty())
	g.Expect(woken("Secret", "n", "other")).To(ConsistOf("a"))

	tracker.set(key("a"), nil)
	tracker.set(key("b"), nil)
	tracker.set(key("never"), nil)
	g.Expect(woken("Secret", "n", "s")).To(BeEmpty())
	g.Expect(tracker.watchers).To(BeEmpty(), "nothing is left of who is gone")
	g.Expect(tracker.watched).To(BeEmpty())
}

func TestTracker_keepsWhatItWasGiven(t *testing.T) {
	g := NewWithT(t)
	tracker := newTracker()
	refs := make([]reference, 1, 10)
	refs[0] = reference{"Secret", key("first")}
	tracker.set(key("a"), refs)
	// The caller goes on with the same list.
	_ = append(refs, reference{"Secret", key("second")})
	tracker.set(key("a"), []reference{{"Secret", key("third")}})
	g.Expect(tracker.watchers).To(HaveLen(1))
	g.Expect(tracker.watchers).To(HaveKey(reference{"Secret", key("third")}))
}

func TestReferences_areThoseOfTheWorkspace(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.apply.Spec.TemplateRef = infrav1.TemplateReference{Name: "t", Namespace: "templates"}
	s.apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${WORKSPACE_NAME}-s"}, {Name: "${unknown}"}}
	s.apply.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "w", Namespace: "elsewhere"}}
	g.Expect(s.references()).To(ConsistOf(
		reference{"WorkspaceTemplate", client.ObjectKey{Namespace: "templates", Name: "t"}},
		reference{"WorkspaceTemplateApply", client.ObjectKey{Namespace: "elsewhere", Name: "w"}},
		reference{"Secret", key("hello-s")},
		reference{"Secret", key("${unknown}")},
	))
}

func TestWakeUp_namesTheWorkspaceOfTheRun(t *testing.T) {
	g := NewWithT(t)
	event := WakeUp(terraform.Run{Namespace: "n", Workspace: "hello", ID: "hello-r1"})
	g.Expect(client.ObjectKeyFromObject(event.Object)).To(Equal(key("hello")))
}
