package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

var deletion = &metav1.Time{Time: now}

// controlPlane returns a control plane, and whether its load balancers and itself
// are deleted.
func controlPlane(loadBalancersGone, deleting bool) *controlplanev1.CAPTControlPlane {
	c := &controlplanev1.CAPTControlPlane{}
	if loadBalancersGone {
		c.Status.Conditions = []metav1.Condition{{Type: controlplanev1.NodesGoneCondition, Status: metav1.ConditionTrue}}
	}
	if deleting {
		c.DeletionTimestamp = deletion
	}
	return c
}

func TestRemovesObjects(t *testing.T) {
	for name, test := range map[string]struct {
		policy addonsv1.DeletionPolicy
		change func(in *installation)
		want   bool
	}{
		"remove":              {addonsv1.DeletionPolicyRemove, func(*installation) {}, true},
		"leave":               {addonsv1.DeletionPolicyLeave, func(*installation) {}, false},
		"cluster is gone":     {addonsv1.DeletionPolicyRemove, func(in *installation) { in.cluster = nil }, false},
		"kept":                {addonsv1.DeletionPolicyRemove, func(in *installation) { annotate(in, "crds, flux") }, false},
		"others are kept":     {addonsv1.DeletionPolicyRemove, func(in *installation) { annotate(in, "crds,flux-2") }, true},
		"cluster is deleting": {addonsv1.DeletionPolicyRemove, func(in *installation) { annotate(in, "flux"); in.cluster.DeletionTimestamp = deletion }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := &scope{addon: newAddon("flux")}, selected("a")
			s.addon.Spec.DeletionPolicy = test.policy
			test.change(in)
			NewWithT(t).Expect(s.removesObjects(in)).To(Equal(test.want))
		})
	}
}

func annotate(in *installation, addons string) {
	in.cluster.Annotations = map[string]string{addonsv1.LeaveAddonsAnnotation: addons}
}

func TestCheckRemovalOrder(t *testing.T) {
	here, elsewhere := addonsv1.ClusterAddonStatus{Name: "a"}, addonsv1.ClusterAddonStatus{Name: "b"}
	const nodes = "Removing: Waiting for the nodes and load balancers of the cluster to be deleted"
	for name, test := range map[string]struct {
		addons       []addonsv1.CAPTAddon
		deleting     bool
		controlPlane *controlplanev1.CAPTControlPlane
		want         string
	}{
		"nothing depends on it":      {},
		"dependent is elsewhere":     {addons: []addonsv1.CAPTAddon{*withStatus(newAddon("karpenter", "flux"), elsewhere)}},
		"dependent is here":          {addons: []addonsv1.CAPTAddon{*withStatus(newAddon("karpenter", "flux"), here)}, want: "WaitingForDependents: Add-on karpenter depends on this one and is removed first"},
		"other is here":              {addons: []addonsv1.CAPTAddon{*withStatus(newAddon("karpenter"), here)}},
		"cluster, no control plane":  {deleting: true},
		"cluster, nodes exist":       {deleting: true, controlPlane: controlPlane(false, true), want: nodes},
		"cluster, before its plane":  {deleting: true, controlPlane: controlPlane(true, false)},
		"cluster, nodes are deleted": {deleting: true, controlPlane: controlPlane(true, true)},
		"only the add-on":            {controlPlane: controlPlane(false, false)},
		"cluster, dependent is here": {
			deleting: true, controlPlane: controlPlane(true, true), addons: []addonsv1.CAPTAddon{*withStatus(newAddon("karpenter", "flux"), here)},
			want: "WaitingForDependents: Add-on karpenter depends on this one and is removed first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := &scope{addon: newAddon("flux"), addons: test.addons}, selected("a")
			in.controlPlane = test.controlPlane
			if test.deleting {
				in.cluster.DeletionTimestamp = deletion
			}
			err := s.checkRemovalOrder(in)
			NewWithT(t).Expect(textOf(err)).To(Equal(test.want))
		})
	}
}

func TestIsReachable(t *testing.T) {
	for name, test := range map[string]struct {
		initialized, deleting bool
		controlPlane          *controlplanev1.CAPTControlPlane
		want                  bool
	}{
		"running":                  {true, false, nil, true},
		"not initialized":          {false, false, controlPlane(false, false), false},
		"deleting":                 {true, true, controlPlane(false, true), true},
		"control plane is deleted": {true, true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := selected("a")
			in.cluster.Status.Initialization.ControlPlaneInitialized = &test.initialized
			in.controlPlane = test.controlPlane
			if test.deleting {
				in.cluster.DeletionTimestamp = deletion
			}
			NewWithT(t).Expect(in.isReachable()).To(Equal(test.want))
		})
	}
}

func TestWaitsForNamespaces_endsAfterTheGracePeriod(t *testing.T) {
	content := "Waiting for " + contentOf + "Namespace flux to be deleted"
	for name, test := range map[string]struct {
		reason, message string
		since           time.Duration
		want            bool
	}{
		"first time":       {addonsv1.RemovingReason, "Waiting for HelmRelease a to be deleted", time.Hour, true},
		"not removing":     {"Ready", content, time.Hour, true},
		"within the grace": {addonsv1.RemovingReason, content, 29 * time.Second, true},
		"after the grace":  {addonsv1.RemovingReason, content, 30 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := &installation{previous: addonsv1.ClusterAddonStatus{Reason: test.reason, Message: test.message, Since: ago(test.since)}}
			NewWithT(t).Expect(in.waitsForNamespaces(now)).To(Equal(test.want))
		})
	}
}

func TestRemover_knowsTheCluster(t *testing.T) {
	g := NewWithT(t)
	in := selected("a")
	r := in.remover(&scope{addon: newAddon("flux"), now: now}, nil)
	g.Expect(*r).To(Equal(remover{addon: "flux", waitsForNamespaces: true}))
	in.cluster.DeletionTimestamp = deletion
	g.Expect(in.remover(&scope{addon: newAddon("flux"), now: now}, nil).clusterDeleting).To(BeTrue())
}

func TestRemove_marksTheClusterWhenNothingIsLeft(t *testing.T) {
	g := NewWithT(t)
	in := &installation{name: "a"}
	g.Expect((&Reconciler{}).remove(t.Context(), &scope{addon: newAddon("flux"), now: now}, in)).To(Succeed())
	g.Expect(in.removed).To(BeTrue())

	waiting := selected("a")
	s := &scope{addon: newAddon("flux"), now: now, addons: []addonsv1.CAPTAddon{*withStatus(newAddon("karpenter", "flux"), addonsv1.ClusterAddonStatus{Name: "a"})}}
	s.addon.Spec.DeletionPolicy = addonsv1.DeletionPolicyRemove
	g.Expect((&Reconciler{}).remove(t.Context(), s, waiting)).To(Succeed())
	g.Expect(waiting.removed).To(BeFalse())
	g.Expect(waiting.current.Reason).To(Equal(addonsv1.WaitingForDependentsReason))
}

func TestSummarizeRemoval(t *testing.T) {
	g := NewWithT(t)
	s := &scope{}
	g.Expect(s.summarizeRemoval()).To(Succeed())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.installations = append(s.installations, &installation{name: name, removed: name == "a", current: addonsv1.ClusterAddonStatus{Message: "soon"}})
	}
	waiting, found := fault.AsWaiting(s.summarizeRemoval())
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(addonsv1.RemovingReason))
	g.Expect(waiting.Message()).To(Equal("b: soon; c: soon; d: soon; and 1 more"))
}
