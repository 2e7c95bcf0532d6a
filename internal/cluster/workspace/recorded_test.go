package workspace

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// indexed returns a keeper of workspaces with the index by owner.
func indexed(objects ...client.Object) *Keeper {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, ownerIndex, func(obj client.Object) []string {
			if owner := metav1.GetControllerOf(obj); owner != nil {
				return []string{string(owner.UID)}
			}
			return nil
		}).Build()
	return &Keeper{Client: c, Live: c}
}

// recorded returns an owner whose status has a workspace.
func recorded(name string) *infrav1.CAPTCluster {
	o := owner("1")
	o.Status.WorkspaceRef = &infrav1.LocalReference{Name: name}
	return o
}

func TestRecordedName(t *testing.T) {
	ref := &infrav1.LocalReference{Name: "x"}
	for _, o := range []client.Object{
		&infrav1.CAPTCluster{Status: infrav1.CAPTClusterStatus{WorkspaceRef: ref}},
		&infrav1.CAPTMachine{Status: infrav1.CAPTMachineStatus{WorkspaceRef: ref}},
		&infrav1.CAPTMachinePool{Status: infrav1.CAPTMachinePoolStatus{WorkspaceRef: ref}},
		&controlplanev1.CAPTControlPlane{Status: controlplanev1.CAPTControlPlaneStatus{WorkspaceRef: ref}},
	} {
		NewWithT(t).Expect(recordedName(o)).To(Equal("x"), "%T", o)
	}
	NewWithT(t).Expect(recordedName(&infrav1.CAPTCluster{})).To(BeEmpty())
}

// A user who can change a workspace can remove its owner.
func TestEnsure_restoresTheOwner(t *testing.T) {
	g := NewWithT(t)
	apply := rendered(g)
	apply.UID, apply.OwnerReferences = "w", nil
	evil := rendered(g)
	evil.Name, evil.UID = "a-evil", "e"
	for name, others := range map[string][]client.Object{"nothing else": nil, "a workspace that a user created": {evil}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k := indexed(append(others, apply.DeepCopy())...)
			got, err := k.Ensure(t.Context(), recorded(apply.Name), desired())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Name).To(Equal(apply.Name))
			g.Expect(metav1.IsControlledBy(got, owner("1"))).To(BeTrue())
			var list infrav1.WorkspaceTemplateApplyList
			g.Expect(k.Client.List(t.Context(), &list)).To(Succeed())
			g.Expect(list.Items).To(HaveLen(len(others)+1), "no second workspace")
		})
	}
}

func TestEnsure_createsNoSecondWorkspaceBesideOneThatWasTaken(t *testing.T) {
	g := NewWithT(t)
	apply := rendered(g)
	apply.OwnerReferences[0].UID = "other"
	_, err := indexed(apply).Ensure(t.Context(), recorded(apply.Name), desired())
	stalled, ok := fault.AsStalled(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(stalled.Reason).To(Equal(infrav1.WorkspaceNameTakenReason))
}

// What lost its owner is neither destroyed nor forgotten with it.
func TestRemove_stallsWithoutTheOwnerReference(t *testing.T) {
	g := NewWithT(t)
	apply := rendered(g)
	apply.OwnerReferences = nil
	k := indexed(apply)
	stalled, ok := fault.AsStalled(k.Remove(t.Context(), recorded(apply.Name), false, nil))
	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Message()).To(ContainSubstring("has lost its owner"))
	g.Expect(k.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(apply.DeletionTimestamp.IsZero()).To(BeTrue())
	g.Expect(k.Remove(t.Context(), owner("1"), false, nil)).To(Succeed(), "it is not known to be that of this owner")
}
