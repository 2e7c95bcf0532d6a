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

func TestTracker_mapsObjectsToTheirReaders(t *testing.T) {
	g := NewWithT(t)
	tracker := newTracker()
	readers := func(kind, namespace, name string) (names []string) {
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, request := range tracker.mapTo(kind)(t.Context(), obj) {
			names = append(names, request.Name)
		}
		return names
	}
	secret, other := reference{"Secret", key("s")}, reference{"Secret", key("other")}

	tracker.set(key("a"), []reference{secret, secret, {"ConfigMap", key("s")}})
	tracker.set(key("b"), []reference{secret})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("a", "b"))
	g.Expect(readers("ConfigMap", "n", "s")).To(ConsistOf("a"))
	g.Expect(readers("Secret", "elsewhere", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "absent")).To(BeEmpty())
	g.Expect(readers("WorkspaceTemplate", "n", "s")).To(BeEmpty())

	tracker.set(key("a"), []reference{other})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("b"), "removed references are forgotten")
	g.Expect(readers("ConfigMap", "n", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "other")).To(ConsistOf("a"))

	tracker.set(key("a"), nil)
	tracker.set(key("b"), nil)
	tracker.set(key("never"), nil)
	g.Expect(readers("Secret", "n", "s")).To(BeEmpty())
	g.Expect(tracker.readers).To(BeEmpty(), "nothing is left")
	g.Expect(tracker.references).To(BeEmpty())
}

func TestTracker_isIndependentOfTheCallersSlice(t *testing.T) {
	g := NewWithT(t)
	tracker := newTracker()
	refs := make([]reference, 1, 10)
	refs[0] = reference{"Secret", key("first")}
	tracker.set(key("a"), refs)
	// The caller appends to the same slice.
	_ = append(refs, reference{"Secret", key("second")})
	tracker.set(key("a"), []reference{{"Secret", key("third")}})
	g.Expect(tracker.readers).To(HaveLen(1))
	g.Expect(tracker.readers).To(HaveKey(reference{"Secret", key("third")}))
}

func TestReferences(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.apply.Spec.TemplateRef = infrav1.TemplateReference{Name: "t", Namespace: "templates"}
	s.apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${WORKSPACE_NAME}-s"}, {Name: "${unknown}"}}
	s.apply.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "w", Namespace: "elsewhere"}}
	g.Expect(references(s.apply)).To(ConsistOf(
		reference{"WorkspaceTemplate", client.ObjectKey{Namespace: "templates", Name: "t"}},
		reference{"WorkspaceTemplateApply", client.ObjectKey{Namespace: "elsewhere", Name: "w"}},
		reference{"Secret", key("hello-s")},
		reference{"Secret", key("${unknown}")},
	))
}

func TestRunExit_refersToTheWorkspaceOfTheRun(t *testing.T) {
	g := NewWithT(t)
	event := RunExit(terraform.Run{Namespace: "n", Workspace: "hello", ID: "hello-r1"})
	g.Expect(client.ObjectKeyFromObject(event.Object)).To(Equal(key("hello")))
}
