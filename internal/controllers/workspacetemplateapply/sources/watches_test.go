package sources

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/template"
)

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }

func newResolved(name string) *Resolved {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u"}}
	return &Resolved{Workspace: &runs.Workspace{Apply: apply}, Inputs: &template.Inputs{}}
}

func TestTracker_mapsObjectsToTheirReaders(t *testing.T) {
	g := NewWithT(t)
	tracker := NewTracker()
	readers := func(kind, namespace, name string) (names []string) {
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, request := range tracker.MapTo(kind)(t.Context(), obj) {
			names = append(names, request.Name)
		}
		return names
	}
	secret, other := Reference{Kind: "Secret", Key: key("s")}, Reference{Kind: "Secret", Key: key("other")}

	tracker.Set(key("a"), []Reference{secret, secret, {Kind: "ConfigMap", Key: key("s")}})
	tracker.Set(key("b"), []Reference{secret})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("a", "b"))
	g.Expect(readers("ConfigMap", "n", "s")).To(ConsistOf("a"))
	g.Expect(readers("Secret", "elsewhere", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "absent")).To(BeEmpty())
	g.Expect(readers("WorkspaceTemplate", "n", "s")).To(BeEmpty())

	tracker.Set(key("a"), []Reference{other})
	g.Expect(readers("Secret", "n", "s")).To(ConsistOf("b"), "removed references are forgotten")
	g.Expect(readers("ConfigMap", "n", "s")).To(BeEmpty())
	g.Expect(readers("Secret", "n", "other")).To(ConsistOf("a"))

	tracker.Set(key("a"), nil)
	tracker.Set(key("b"), nil)
	tracker.Set(key("never"), nil)
	g.Expect(readers("Secret", "n", "s")).To(BeEmpty())
	g.Expect(tracker.readers).To(BeEmpty(), "nothing is left")
	g.Expect(tracker.references).To(BeEmpty())
}

func TestTracker_isIndependentOfTheCallersSlice(t *testing.T) {
	g := NewWithT(t)
	tracker := NewTracker()
	refs := make([]Reference, 1, 10)
	refs[0] = Reference{Kind: "Secret", Key: key("first")}
	tracker.Set(key("a"), refs)
	// The caller appends to the same slice.
	_ = append(refs, Reference{Kind: "Secret", Key: key("second")})
	tracker.Set(key("a"), []Reference{{Kind: "Secret", Key: key("third")}})
	g.Expect(tracker.readers).To(HaveLen(1))
	g.Expect(tracker.readers).To(HaveKey(Reference{Kind: "Secret", Key: key("third")}))
}

func TestReferences(t *testing.T) {
	g := NewWithT(t)
	s := newResolved("hello")
	s.Apply.Spec.TemplateRef = infrav1.TemplateReference{Name: "t", Namespace: "templates"}
	s.Apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${WORKSPACE_NAME}-s"}, {Name: "${unknown}"}}
	s.Apply.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "w", Namespace: "elsewhere"}}
	g.Expect(References(s.Apply)).To(ConsistOf(
		Reference{Kind: "WorkspaceTemplate", Key: client.ObjectKey{Namespace: "templates", Name: "t"}},
		Reference{Kind: "WorkspaceTemplateApply", Key: client.ObjectKey{Namespace: "elsewhere", Name: "w"}},
		Reference{Kind: "Secret", Key: key("hello-s")},
		Reference{Kind: "Secret", Key: key("${unknown}")},
	))
}
