package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/terraform"
)

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }

func TestTracker_mapsObjectsToTheirReaders(t *testing.T) {
	g := NewWithT(t)
	tracker := sources.NewTracker()
	readers := func(kind, namespace, name string) (names []string) {
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, request := range tracker.MapTo(kind)(t.Context(), obj) {
			names = append(names, request.Name)
		}
		return names
	}
	secret, other := sources.Reference{Kind: "Secret", Key: key("s")}, sources.Reference{Kind: "Secret", Key: key("other")}

	tracker.Set(key("a"), []sources.Reference{secret, secret, {Kind: "ConfigMap", Key: key("s")}})
	tracker.Set(key("b"), []sources.Reference{secret})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("a", "b"))
	g.Expect(readers("ConfigMap", "n", "s")).To(ConsistOf("a"))
	g.Expect(readers("Secret", "elsewhere", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "absent")).To(BeEmpty())
	g.Expect(readers("WorkspaceTemplate", "n", "s")).To(BeEmpty())

	tracker.Set(key("a"), []sources.Reference{other})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("b"), "removed references are forgotten")
	g.Expect(readers("ConfigMap", "n", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "other")).To(ConsistOf("a"))

	tracker.Set(key("a"), nil)
	tracker.Set(key("b"), nil)
	tracker.Set(key("never"), nil)
	g.Expect(readers("Secret", "n", "s")).To(BeEmpty())
	g.Expect(tracker.Readers).To(BeEmpty(), "nothing is left")
	g.Expect(tracker.References).To(BeEmpty())
}

func TestTracker_isIndependentOfTheCallersSlice(t *testing.T) {
	g := NewWithT(t)
	tracker := sources.NewTracker()
	refs := make([]sources.Reference, 1, 10)
	refs[0] = sources.Reference{Kind: "Secret", Key: key("first")}
	tracker.Set(key("a"), refs)
	// The caller appends to the same slice.
	_ = append(refs, sources.Reference{Kind: "Secret", Key: key("second")})
	tracker.Set(key("a"), []sources.Reference{{Kind: "Secret", Key: key("third")}})
	g.Expect(tracker.Readers).To(HaveLen(1))
	g.Expect(tracker.Readers).To(HaveKey(sources.Reference{Kind: "Secret", Key: key("third")}))
}

func TestReferences(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Spec.TemplateRef = infrav1.TemplateReference{Name: "t", Namespace: "templates"}
	s.Apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${WORKSPACE_NAME}-s"}, {Name: "${unknown}"}}
	s.Apply.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "w", Namespace: "elsewhere"}}
	g.Expect(sources.References(s.Apply)).To(ConsistOf(
		sources.Reference{Kind: "WorkspaceTemplate", Key: client.ObjectKey{Namespace: "templates", Name: "t"}},
		sources.Reference{Kind: "WorkspaceTemplateApply", Key: client.ObjectKey{Namespace: "elsewhere", Name: "w"}},
		sources.Reference{Kind: "Secret", Key: key("hello-s")},
		sources.Reference{Kind: "Secret", Key: key("${unknown}")},
	))
}

func TestRunExit_refersToTheWorkspaceOfTheRun(t *testing.T) {
	g := NewWithT(t)
	event := RunExit(terraform.Run{Namespace: "n", Workspace: "hello", ID: "hello-r1"})
	g.Expect(client.ObjectKeyFromObject(event.Object)).To(Equal(key("hello")))
}
