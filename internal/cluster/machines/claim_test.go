package machines

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestClaim(t *testing.T) {
	ours := metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTMachineSet", Name: "s", UID: "ours", Controller: new(true)}
	theirs := ours
	theirs.UID = "theirs"
	capi := func(kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: "x", UID: "x"}
	}
	matching := map[string]string{"pool": "a"}
	gone := new(metav1.NewTime(noon))
	tests := []struct {
		name   string
		owner  metav1.ObjectMeta
		object metav1.ObjectMeta
		want   Claim
	}{
		{name: "ours", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{ours}}, want: Keep},
		{name: "ours, on its way", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{ours}, DeletionTimestamp: gone}, want: Keep},
		{name: "ours, relabelled", object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ours}}, want: Release},
		{
			name: "ours, relabelled, while we go", owner: metav1.ObjectMeta{DeletionTimestamp: gone},
			object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ours}}, want: Keep,
		},
		{name: "theirs", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{theirs}}, want: Ignore},
		{name: "theirs, relabelled", object: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{theirs}}, want: Ignore},
		{name: "an orphan", object: metav1.ObjectMeta{Labels: matching}, want: Adopt},
		{name: "an orphan of the Cluster", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{capi("Cluster")}}, want: Adopt},
		{
			name:   "an orphan of our cluster",
			object: metav1.ObjectMeta{Labels: map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "production"}}, want: Adopt,
		},
		{
			name:   "an orphan of another cluster",
			object: metav1.ObjectMeta{Labels: map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "staging"}}, want: Ignore,
		},
		{name: "made for a Machine", object: metav1.ObjectMeta{Labels: matching, OwnerReferences: []metav1.OwnerReference{capi("MachineSet")}}, want: Ignore},
		{name: "an orphan on its way", object: metav1.ObjectMeta{Labels: matching, DeletionTimestamp: gone}, want: Ignore},
		{name: "an orphan while we go", owner: metav1.ObjectMeta{DeletionTimestamp: gone}, object: metav1.ObjectMeta{Labels: matching}, want: Ignore},
		{name: "an orphan elsewhere", owner: metav1.ObjectMeta{Namespace: "here"}, object: metav1.ObjectMeta{Labels: matching, Namespace: "there"}, want: Ignore},
		{name: "a stranger", object: metav1.ObjectMeta{Labels: map[string]string{"pool": "b"}}, want: Ignore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.owner.UID = "ours"
			owner := Owner{Object: &tt.owner, Selector: labels.SelectorFromSet(matching), ClusterName: "production"}
			NewWithT(t).Expect(owner.Claim(&tt.object)).To(Equal(tt.want))
		})
	}
}

func TestAdoptedAndReleased_leaveOtherOwnersAlone(t *testing.T) {
	g := NewWithT(t)
	other, us := metav1.OwnerReference{UID: "other"}, metav1.OwnerReference{UID: "us", Controller: new(true)}

	adopted := Adopted([]metav1.OwnerReference{other, {UID: "us"}}, us)
	g.Expect(adopted).To(Equal([]metav1.OwnerReference{other, us}))
	g.Expect(Released(adopted, us)).To(Equal([]metav1.OwnerReference{other}))
	g.Expect(adopted).To(HaveLen(2), "what was given is not changed")
}
