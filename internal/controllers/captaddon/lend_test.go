package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// lending is an add-on of the namespace platform and clusters that it selects.
func lending(t *testing.T, objects ...client.Object) (*Reconciler, *addonsv1.CAPTAddon) {
	t.Helper()
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "base", Generation: 1}, Spec: addonsv1.CAPTAddonSpec{
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"base": "true"}},
		Manifests:       []addonsv1.ManifestSource{{Name: "all", SecretRef: &infrav1.LocalReference{Name: "manifests"}}},
	}}
	for _, namespace := range []string{"platform", "team-a", "team-b"} {
		objects = append(objects, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", Labels: map[string]string{"base": "true"}}})
	}
	objects = append(objects,
		addon, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-c", Name: "c"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "manifests"}, Data: map[string][]byte{"a": []byte("lent")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "manifests"}, Data: map[string][]byte{"a": []byte("own")}},
	)
	r := newReconciler(interceptor.Funcs{}, objects...)
	r.Grants = &grant.Checker{Client: r.Client, Live: r.Client}
	r.Recorder = events.NewFakeRecorder(10)
	return r, addon
}

func lentTo(namespace string) *infrav1.CAPTReferenceGrant {
	return &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{namespace}}}, To: []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedCAPTAddon}},
	}}
}

func copies(t *testing.T, r *Reconciler) []string {
	t.Helper()
	var list addonsv1.CAPTAddonList
	NewWithT(t).Expect(r.Client.List(t.Context(), &list)).To(Succeed())
	var namespaces []string
	for i := range list.Items {
		if lender(&list.Items[i]) != "" {
			namespaces = append(namespaces, list.Items[i].Namespace)
		}
	}
	return namespaces
}

func TestLend_reachesGrantedNamespacesWithClusters(t *testing.T) {
	g := NewWithT(t)
	r, addon := lending(t)
	g.Expect((&Reconciler{noGrants: true}).lend(t.Context(), &scope{addon: addon})).To(Succeed(), "no client is needed")
	g.Expect(r.lend(t.Context(), &scope{addon: addon})).To(Succeed())
	g.Expect(copies(t, r)).To(BeEmpty(), "nothing is granted")

	g.Expect(r.Client.Create(t.Context(), lentTo("team-a"))).To(Succeed())
	s := &scope{addon: addon}
	g.Expect(r.lend(t.Context(), s)).To(Succeed())
	g.Expect(s.requeueAfter).To(Equal(lendInterval), "the labels of namespace team-b may change")
	g.Expect(copies(t, r)).To(ConsistOf("team-a"))
	g.Expect(r.addonsOfGrant(t.Context(), lentTo("team-a"))).To(ContainElements(
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "platform", Name: "base"}}, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team-a", Name: "base"}}))
	g.Expect(r.copiesOf(t.Context(), addon)).To(HaveLen(1))
	g.Expect(r.lentToCluster(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "new", Labels: map[string]string{"base": "true"}}})).To(HaveLen(1))
	g.Expect(r.addonsOfSource(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "manifests"}})).To(ConsistOf(
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "platform", Name: "base"}}, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team-a", Name: "base"}}))

	t.Log("an add-on of the team with this name stays")
	taken := addon.DeepCopy()
	taken.ObjectMeta = metav1.ObjectMeta{Namespace: "team-b", Name: "base"}
	r, addon = lending(t, taken, lentTo("team-b"))
	g.Expect(r.lend(t.Context(), &scope{addon: addon})).To(Succeed())
	g.Expect(copies(t, r)).To(BeEmpty())
	g.Expect(<-r.Recorder.(*events.FakeRecorder).Events).To(ContainSubstring("NameTaken"))
}

// Whatever a team writes into a copy, it gets what the platform lends and nothing else.
func TestBorrow_followsTheAddonThatIsLent(t *testing.T) {
	g := NewWithT(t)
	r, addon := lending(t, lentTo("team-a"))
	forged := func(namespace string) *addonsv1.CAPTAddon {
		return &addonsv1.CAPTAddon{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "base", Annotations: map[string]string{addonsv1.LentFromAnnotation: "platform"}},
			Spec:       addonsv1.CAPTAddonSpec{Manifests: []addonsv1.ManifestSource{{Name: "all", SecretRef: &infrav1.LocalReference{Name: "credentials"}}}},
		}
	}
	lent := forged("team-a")
	g.Expect(r.borrow(t.Context(), lent)).To(Succeed())
	g.Expect(lent.Spec).To(Equal(addon.Spec))
	data, err := secretData(t.Context(), r.Live, (&scope{addon: lent}).sources(), "manifests", "x")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(data).To(HaveKeyWithValue("a", []byte("lent")))

	t.Log("without a grant nothing is read, rendered or removed")
	stalled, ok := fault.AsWaiting(r.borrow(t.Context(), forged("team-b")))
	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Reason).To(Equal(infrav1.NotGrantedReason))

	t.Log("a copy is deleted with the add-on")
	g.Expect(r.Client.Create(t.Context(), lent)).To(Succeed())
	g.Expect(r.recall(t.Context(), &scope{addon: addon})).To(MatchError(ContainSubstring("team-a")))
	g.Expect(apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(lent), &addonsv1.CAPTAddon{}))).To(BeTrue())
	g.Expect(r.recall(t.Context(), &scope{addon: addon})).To(Succeed())

	t.Log("a forged copy does not hold the deletion, whatever it has as finalizers")
	held := forged("team-b")
	held.Finalizers = []string{"example.com/never"}
	g.Expect(r.Client.Create(t.Context(), held)).To(Succeed())
	g.Expect(r.recall(t.Context(), &scope{addon: addon})).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(held), &addonsv1.CAPTAddon{})).To(Succeed(), "its finalizer keeps it")

	t.Log("and only then: an add-on that is missing may be about to be restored")
	restored := forged("team-a")
	g.Expect(r.Client.Create(t.Context(), restored)).To(Succeed())
	g.Expect(r.Client.Delete(t.Context(), addon)).To(Succeed())
	g.Expect(r.borrow(t.Context(), restored)).To(MatchError(ContainSubstring("does not exist")))
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(restored), &addonsv1.CAPTAddon{})).To(Succeed())
}

// clusterctl deletes what it has moved, one object after the other. The add-on that is lent belongs
// to another management cluster then, and what it installed stays.
func TestBorrow_keepsTheCopyOfAnAddonThatWasMoved(t *testing.T) {
	g := NewWithT(t)
	r, addon := lending(t, lentTo("team-a"))
	lent := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "base", Annotations: map[string]string{addonsv1.LentFromAnnotation: "platform"}}}
	g.Expect(r.Client.Create(t.Context(), lent)).To(Succeed())
	addon.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
	addon.Finalizers = []string{addonsv1.CAPTAddonFinalizer}
	g.Expect(r.Client.Update(t.Context(), addon)).To(Succeed())
	g.Expect(r.Client.Delete(t.Context(), addon)).To(Succeed())
	g.Expect(r.borrow(t.Context(), lent)).To(MatchError(ContainSubstring("does not exist")))
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(lent), &addonsv1.CAPTAddon{})).To(Succeed())
}

// A withdrawn grant must not hold back the deletion of a cluster that waits for the removal of
// its add-ons. What is installed in other clusters stays.
func TestWithhold_removesTheAddonFromDeletedClusters(t *testing.T) {
	g := NewWithT(t)
	lent := &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "base", Annotations: map[string]string{addonsv1.LentFromAnnotation: "platform"}},
		Spec:       addonsv1.CAPTAddonSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"base": "true"}}},
		Status:     addonsv1.CAPTAddonStatus{Clusters: []addonsv1.ClusterAddonStatus{{Name: "c"}, {Name: "deleted"}, {Name: "gone"}}},
	}
	rendered := func(cluster string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "base-" + cluster, Labels: map[string]string{
			addonsv1.AddonLabel: "base", clusterv1.ClusterNameLabel: cluster,
		}}}
	}
	deleted := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "deleted", Labels: map[string]string{"base": "true"}, Finalizers: []string{"x"}, DeletionTimestamp: deletion,
	}}
	r, _ := lending(t, lent, deleted, rendered("c"), rendered("deleted"), rendered("gone"))
	r.Now = func() time.Time { return now }
	s, err := r.scope(t.Context(), lent, nil)
	g.Expect(err).NotTo(HaveOccurred())
	waiting, ok := fault.AsWaiting(r.withhold(t.Context(), s))
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.NotGrantedReason))
	g.Expect(lent.Status.Clusters).To(ConsistOf(HaveField("Name", "c")), "the control plane of the deleted cluster waits for this")
	var left corev1.SecretList
	g.Expect(r.Client.List(t.Context(), &left, client.InNamespace("team-a"), client.HasLabels{addonsv1.AddonLabel})).To(Succeed())
	g.Expect(left.Items).To(ConsistOf(HaveField("Name", "base-c")))

	t.Log("in force again, the grant continues all of it")
	g.Expect(r.Client.Create(t.Context(), lentTo("team-a"))).To(Succeed())
	s, err = r.scope(t.Context(), lent, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.withhold(t.Context(), s)).To(Succeed())
}
