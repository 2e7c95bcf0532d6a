package ownership

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestDecide(t *testing.T) {
	ours := metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTMachineSet", Name: "s", UID: "ours", Controller: new(true)}
	theirs := ours
	theirs.UID = "theirs"
	capi := func(kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: "x", UID: "x"}
	}
	matching := map[string]string{"pool": "a"}
	deleted := new(metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)))
	tests := []struct {
		name   string
		owner  metav1.ObjectMeta
		object metav1.ObjectMeta
		want   Action
	}{
		{name: "own", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{ours}}, want: Keep},
		{name: "own, being deleted", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{ours}, DeletionTimestamp: deleted}, want: Keep},
		{name: "own, relabelled", object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ours}}, want: Release},
		{
			name: "own, relabelled, owner being deleted", owner: metav1.ObjectMeta{DeletionTimestamp: deleted},
			object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ours}}, want: Keep,
		},
		{name: "other controller", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{theirs}}, want: Ignore},
		{name: "other controller, relabelled", object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{theirs}}, want: Ignore},
		{name: "orphan", object: metav1.ObjectMeta{Labels: matching}, want: Adopt},
		{name: "orphan owned by the Cluster", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{capi("Cluster")}}, want: Adopt},
		{
			name:   "orphan of the same cluster",
			object: metav1.ObjectMeta{Labels: map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "production"}}, want: Adopt,
		},
		{
			name:   "orphan of another cluster",
			object: metav1.ObjectMeta{Labels: map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "staging"}}, want: Ignore,
		},
		{name: "created for a Machine", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{capi("MachineSet")}}, want: Ignore},
		{name: "orphan being deleted", object: metav1.ObjectMeta{Labels: matching, DeletionTimestamp: deleted}, want: Ignore},
		{name: "orphan, owner being deleted", owner: metav1.ObjectMeta{DeletionTimestamp: deleted}, object: metav1.ObjectMeta{Labels: matching}, want: Ignore},
		{name: "orphan in another namespace", owner: metav1.ObjectMeta{Namespace: "here"}, object: metav1.ObjectMeta{Labels: matching, Namespace: "there"}, want: Ignore},
		{name: "other labels", object: metav1.ObjectMeta{Labels: map[string]string{"pool": "b"}}, want: Ignore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.owner.UID = "ours"
			owner := Owner{Object: &tt.owner, Selector: labels.SelectorFromSet(matching), ClusterName: "production"}
			NewWithT(t).Expect(owner.Decide(&tt.object)).To(Equal(tt.want))
		})
	}
}

func TestOwnerReferences_keepOtherOwners(t *testing.T) {
	g := NewWithT(t)
	other, ours := metav1.OwnerReference{UID: "other"}, metav1.OwnerReference{UID: "ours", Controller: new(true)}

	adopted := withController([]metav1.OwnerReference{other, {UID: "ours"}}, ours)
	g.Expect(adopted).To(Equal([]metav1.OwnerReference{other, ours}))
	g.Expect(withoutOwner(adopted, ours)).To(Equal([]metav1.OwnerReference{other}))
	g.Expect(adopted).To(HaveLen(2), "the argument is not changed")
}
