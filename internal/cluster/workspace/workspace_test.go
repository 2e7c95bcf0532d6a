package workspace

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// owner returns the object that a workspace is for.
func owner(uid string) *infrav1.CAPTCluster {
	return &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production", UID: types.UID(uid)}}
}

func desired(changes ...func(*Desired)) Desired {
	w := Desired{
		Name: "production-vpc", Cluster: "production",
		Connection: func(name string) string { return name + "-connection" },
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.TemplateReference{Name: "network"},
			Variables:   map[string]infrav1.Value{"name": infrav1.StringValue("a"), "cidr": infrav1.StringValue("10.0.0.0/16")},
		},
	}
	for _, change := range changes {
		change(&w)
	}
	return w
}

func rendered(g *WithT, changes ...func(*Desired)) *infrav1.WorkspaceTemplateApply {
	apply, err := Render(scheme.New(), owner("1"), "production-vpc", desired(changes...))
	g.Expect(err).NotTo(HaveOccurred())
	return apply
}

func TestRender(t *testing.T) {
	g := NewWithT(t)
	filtered := owner("1")
	filtered.Labels = map[string]string{clusterv1.WatchLabel: "blue", "other": "label"}
	apply, err := Render(scheme.New(), filtered, "production-vpc-2", desired())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apply.Namespace).To(Equal("team"))
	g.Expect(apply.Name).To(Equal("production-vpc-2"))
	g.Expect(apply.Labels).To(Equal(map[string]string{clusterv1.ClusterNameLabel: "production", clusterv1.WatchLabel: "blue"}))
	g.Expect(apply.Finalizers).To(ConsistOf(infrav1.WorkspaceHeldFinalizer))
	g.Expect(apply.Spec.WriteConnectionSecretToRef).To(HaveField("Name", "production-vpc-2-connection"))
	g.Expect(metav1.IsControlledBy(apply, filtered)).To(BeTrue())

	_, err = Render(runtime.NewScheme(), filtered, "production-vpc", desired())
	g.Expect(err).To(MatchError(ContainSubstring("owning workspace production-vpc")))

	without := rendered(g, func(w *Desired) { w.Connection = nil })
	g.Expect(without.Spec.WriteConnectionSecretToRef).To(BeNil())
	g.Expect(without.Labels).NotTo(HaveKey(clusterv1.WatchLabel))
}

func TestAsWanted(t *testing.T) {
	g := NewWithT(t)
	want := rendered(g, func(w *Desired) {
		w.Settings = &infrav1.WorkspaceSettings{Protect: []infrav1.ProtectPattern{"a"}, Drift: &infrav1.DriftPolicy{Action: infrav1.DriftReport}}
	})
	for name, c := range map[string]struct {
		change func(*infrav1.WorkspaceTemplateApply)
		want   bool
	}{
		"unchanged":                  {func(*infrav1.WorkspaceTemplateApply) {}, true},
		"a field of the user":        {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual }, true},
		"a label of the user":        {func(a *infrav1.WorkspaceTemplateApply) { a.Labels["team"] = "blue" }, true},
		"a status":                   {func(a *infrav1.WorkspaceTemplateApply) { a.Status.ObservedGeneration = 3 }, true},
		"a changed variable":         {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["cidr"] = infrav1.StringValue("x") }, false},
		"a missing variable":         {func(a *infrav1.WorkspaceTemplateApply) { delete(a.Spec.Variables, "cidr") }, false},
		"another template":           {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" }, false},
		"another protected resource": {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = []infrav1.ProtectPattern{"b", "a"} }, true},
		"an unprotected resource":    {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = []infrav1.ProtectPattern{"b"} }, false},
		"another setting":            {func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Drift.Action = infrav1.DriftOff }, false},
		"a missing label":            {func(a *infrav1.WorkspaceTemplateApply) { a.Labels = nil }, false},
		"a missing finalizer":        {func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil }, false},
		"an owner of the user": {func(a *infrav1.WorkspaceTemplateApply) {
			a.OwnerReferences = append(a.OwnerReferences, metav1.OwnerReference{Name: "x", UID: "2"})
		}, true},
		"an unblocked deletion":             {func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences[0].BlockOwnerDeletion = new(false) }, true},
		"no owner":                          {func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = nil }, false},
		"an owner that does not control it": {func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences[0].Controller = nil }, false},
		"another name of the owner":         {func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences[0].Name = "none" }, false},
		"a second owner with its UID": {func(a *infrav1.WorkspaceTemplateApply) {
			second := a.OwnerReferences[0]
			second.Name, second.Controller = "none", nil
			a.OwnerReferences = append(a.OwnerReferences, second)
		}, false},
		"a field to be removed": {func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[desiredAnnotation] = "older" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := want.DeepCopy()
			c.change(found)
			NewWithT(t).Expect(matchesDesired(found, want)).To(Equal(c.want))
		})
	}
}

func TestRender_hashChangesWithEveryWantedField(t *testing.T) {
	g := NewWithT(t)
	hash := rendered(g).Annotations[desiredAnnotation]
	g.Expect(rendered(g).Annotations[desiredAnnotation]).To(Equal(hash))
	for name, change := range map[string]func(*Desired){
		"a variable less": func(w *Desired) { delete(w.Spec.Variables, "cidr") },
		"no connection":   func(w *Desired) { w.Connection = nil },
		"another cluster": func(w *Desired) { w.Cluster = "staging" },
	} {
		g.Expect(rendered(g, change).Annotations[desiredAnnotation]).NotTo(Equal(hash), name)
	}
}

// Auto is the default. Setting it would end what a user requires in the workspace.
func TestRender_doesNotSetAuto(t *testing.T) {
	g := NewWithT(t)
	settings := func(mode infrav1.ApprovalMode) func(*Desired) {
		return func(w *Desired) {
			w.Settings = &infrav1.WorkspaceSettings{Approval: mode, DestroyApproval: mode, Retry: &infrav1.RetryPolicy{Limit: new(int32(3))}}
		}
	}
	auto := rendered(g, settings(infrav1.ApprovalAuto)).Spec
	g.Expect(auto.Approval).To(BeEmpty())
	g.Expect(auto.DestroyApproval).To(BeEmpty())
	g.Expect(auto.Retry.Limit).To(HaveValue(Equal(int32(3))))
	manual := rendered(g, settings(infrav1.ApprovalManual)).Spec
	g.Expect(manual.Approval).To(Equal(infrav1.ApprovalManual))
	g.Expect(manual.DestroyApproval).To(Equal(infrav1.ApprovalManual))
}

func TestFreeName_avoidsWorkspacesOfOtherOwners(t *testing.T) {
	mine, other := owner("1"), owner("2")
	workspace := func(name string, owner client.Object) *infrav1.WorkspaceTemplateApply {
		w, err := Render(scheme.New(), owner, name, desired())
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return w
	}
	second := "production-vpc-" + short(string(mine.UID))
	for name, c := range map[string]struct {
		existing []client.Object
		want     string
	}{
		"free":                   {nil, "production-vpc"},
		"already created":        {[]client.Object{workspace("production-vpc", mine)}, "production-vpc"},
		"taken":                  {[]client.Object{workspace("production-vpc", other)}, second},
		"taken, already created": {[]client.Object{workspace("production-vpc", other), workspace(second, mine)}, second},
		"both taken":             {[]client.Object{workspace("production-vpc", other), workspace(second, other)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			keeper := &Keeper{Live: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(c.existing...).Build()}
			got, err := keeper.freeName(t.Context(), mine, "production-vpc")
			g.Expect(got).To(Equal(c.want))
			if c.want != "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Reason).To(Equal(infrav1.WorkspaceNameTakenReason))
		})
	}
}
