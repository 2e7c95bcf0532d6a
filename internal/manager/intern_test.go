package manager

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func decoded(name string) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
		Namespace: strings.Clone("team"), Name: name,
		Labels:          map[string]string{strings.Clone("example.com/cluster"): strings.Clone("production")},
		Finalizers:      []string{strings.Clone("example.com/finalizer")},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: strings.Clone("v1"), Kind: strings.Clone("Cluster"), Name: strings.Clone("production"), UID: "1"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	apply.Status.Conditions = append(make([]metav1.Condition, 0, 16), metav1.Condition{
		Type: strings.Clone("Ready"), Status: metav1.ConditionStatus(strings.Clone("True")), Reason: strings.Clone("Applied"), Message: strings.Clone("All is well"),
	})
	return apply
}

func TestTexts_sharesWhatRepeats(t *testing.T) {
	g := NewWithT(t)
	compact := (&texts{}).compact(nil)
	var objects []*infrav1.WorkspaceTemplateApply
	for i := range 2 {
		in := decoded(fmt.Sprint(i))
		want := in.DeepCopy()
		want.ManagedFields = nil
		out, err := compact(in)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(out).To(Equal(want), "nothing else changes")
		objects = append(objects, out.(*infrav1.WorkspaceTemplateApply))
	}
	repeated := func(apply *infrav1.WorkspaceTemplateApply) []string {
		found := []string{apply.Namespace, apply.Finalizers[0], apply.OwnerReferences[0].Kind, apply.OwnerReferences[0].Name}
		for key, value := range apply.Labels {
			found = append(found, key, value)
		}
		c := apply.Status.Conditions[0]
		return append(found, c.Type, string(c.Status), c.Reason, c.Message)
	}
	for i, text := range repeated(objects[0]) {
		g.Expect(unsafe.StringData(repeated(objects[1])[i])).To(BeIdenticalTo(unsafe.StringData(text)), text)
	}
	g.Expect(cap(objects[0].Status.Conditions)).To(BeNumerically("<", 16))
}

func TestTexts_keepsFewTexts(t *testing.T) {
	g := NewWithT(t)
	shared := &texts{}
	for i := range 3 * maxInterned {
		shared.intern(fmt.Sprint(i))
	}
	g.Expect(len(shared.known)).To(BeNumerically("<=", maxInterned))
	long := strings.Repeat("x", maxInternedText+1)
	g.Expect(shared.intern(long)).To(Equal(long))
	g.Expect(shared.known).NotTo(HaveKey(long))
}
