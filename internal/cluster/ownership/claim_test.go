package ownership

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

func newSet() *infrav1.CAPTMachineSet {
	return &infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set", Generation: 2}}
}

func newMachine(name, pool string, owners ...metav1.OwnerReference) *infrav1.CAPTMachine {
	return &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"pool": pool}, OwnerReferences: owners}}
}

func TestClaim(t *testing.T) {
	g := NewWithT(t)
	set := newSet()
	ours := *metav1.NewControllerRef(set, infrav1.GroupVersion.WithKind("CAPTMachineSet"))
	objects := []client.Object{
		set, newMachine("kept", "a", ours), newMachine("orphan", "a"), newMachine("relabelled", "b", ours), newMachine("other", "b"),
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	var list infrav1.CAPTMachineList
	g.Expect(c.List(t.Context(), &list)).To(Succeed())
	candidates := []*infrav1.CAPTMachine{newMachine("deleted", "a"), newMachine("deleted-too", "b", ours)}
	for i := range list.Items {
		candidates = append(candidates, &list.Items[i])
	}

	var adopted, released []string
	claimer := Claimer[*infrav1.CAPTMachine]{
		Owner:  Owner{Object: set, Selector: labels.SelectorFromSet(labels.Set{"pool": "a"}), ClusterName: "production"},
		Client: c, APIReader: c, Reference: ours,
		OnAdopt:   func(m *infrav1.CAPTMachine) { adopted = append(adopted, m.Name) },
		OnRelease: func(m *infrav1.CAPTMachine) { released = append(released, m.Name) },
	}
	claimed, err := claimer.Claim(t.Context(), candidates)

	g.Expect(err).NotTo(HaveOccurred(), "objects that do not exist are ignored")
	g.Expect(claimed).To(ConsistOf(HaveField("Name", "kept"), HaveField("Name", "orphan")))
	g.Expect(adopted).To(Equal([]string{"orphan"}))
	g.Expect(released).To(Equal([]string{"relabelled"}))
	g.Expect(list.Items).To(ContainElement(And(HaveField("Name", "orphan"), HaveField("OwnerReferences", BeEmpty()))), "the cached object is not changed")
	for name, controlled := range map[string]bool{"kept": true, "orphan": true, "relabelled": false, "other": false} {
		m := newMachine(name, "")
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
		g.Expect(metav1.IsControlledBy(m, set)).To(Equal(controlled), name)
	}

	outdated := newMachine("other", "a")
	outdated.ResourceVersion = "1"
	_, err = claimer.Claim(t.Context(), []*infrav1.CAPTMachine{outdated})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)

	claimer.confirmed = false
	set.Generation++
	claimed, err = claimer.Claim(t.Context(), []*infrav1.CAPTMachine{newMachine("other", "a")})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "the API server has another owner: %v", err)
	g.Expect(claimed).To(BeEmpty())
}

func TestConfirm(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change   func(live *infrav1.CAPTMachineSet)
		conflict bool
	}{
		"unchanged":     {func(*infrav1.CAPTMachineSet) {}, false},
		"new spec":      {func(s *infrav1.CAPTMachineSet) { s.Generation = 3 }, true},
		"another UID":   {func(s *infrav1.CAPTMachineSet) { s.UID = "other" }, true},
		"being deleted": {func(s *infrav1.CAPTMachineSet) { s.DeletionTimestamp, s.Finalizers = &now, []string{"x/y"} }, true},
		"deleted":       {func(s *infrav1.CAPTMachineSet) { s.Name = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			live := newSet()
			c.change(live)
			reader := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(live).Build()
			claimer := Claimer[*infrav1.CAPTMachine]{
				Owner: Owner{Object: newSet()}, APIReader: reader, Reference: *metav1.NewControllerRef(live, infrav1.GroupVersion.WithKind("CAPTMachineSet")),
			}
			err := claimer.Confirm(t.Context())
			NewWithT(t).Expect(apierrors.IsConflict(err)).To(Equal(c.conflict), "%v", err)
			NewWithT(t).Expect(err != nil).To(Equal(c.conflict))
		})
	}
}
