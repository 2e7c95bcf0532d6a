package captaddon

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestRolloutBudget_countsClustersThatAreChanging(t *testing.T) {
	changing := func() *installation {
		in := requested(selected("a"), "new")
		in.previous.AppliedHash = "old"
		return in
	}
	for name, test := range map[string]struct {
		change func(in *installation)
		budget int
	}{
		"changing":          {func(*installation) {}, 1},
		"not ready":         {func(in *installation) { in.previous.Ready = new(false) }, 1},
		"ready":             {func(in *installation) { in.previous.Ready = new(true) }, 2},
		"not requested yet": {func(in *installation) { in.secret.Annotations[addonsv1.HashAnnotation] = "old" }, 2},
		"first time":        {func(in *installation) { in.previous.AppliedHash = "" }, 2},
		"not rendered":      {func(in *installation) { in.rendered = nil }, 2},
		"not selected":      {func(in *installation) { in.selected = false }, 1},
		"paused":            {func(in *installation) { in.cluster.Spec.Paused = new(true) }, 2},
		"unreachable": {func(in *installation) {
			in.cluster.Status.Conditions = nil
			in.secret.Annotations[addonsv1.RequestedAtAnnotation] = ago(14 * time.Minute).Format(time.RFC3339)
		}, 1},
		"unreachable for longer than the timeout": {func(in *installation) {
			in.cluster.Status.Conditions = nil
			in.secret.Annotations[addonsv1.RequestedAtAnnotation] = ago(15 * time.Minute).Format(time.RFC3339)
		}, 2},
		"failing for longer than the timeout": {func(in *installation) {
			in.secret.Annotations[addonsv1.RequestedAtAnnotation] = ago(time.Hour).Format(time.RFC3339)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := changing()
			test.change(in)
			s := &scope{addon: newAddon("flux"), now: now, installations: []*installation{in, selected("b"), selected("c"), selected("d")}}
			s.addon.Spec.Rollout = &addonsv1.RolloutPolicy{MaxUnavailable: new(intstr.FromString("50%"))}
			NewWithT(t).Expect(s.rolloutBudget()).To(Equal(test.budget))
		})
	}
}

// Nothing else wakes the controller when the turn of an unreachable cluster ends.
func TestRolloutBudget_isCountedAgainWhenATurnEnds(t *testing.T) {
	g := NewWithT(t)
	in := requested(selected("a"), "new")
	in.previous.AppliedHash = "old"
	in.cluster.Status.Conditions = nil
	in.secret.Annotations[addonsv1.RequestedAtAnnotation] = ago(14 * time.Minute).Format(time.RFC3339)
	s := &scope{addon: newAddon("flux"), now: now, installations: []*installation{in}}
	s.rolloutBudget()
	g.Expect(s.requeueAfter).To(Equal(time.Minute))
}

func TestCheckCluster(t *testing.T) {
	for name, test := range map[string]struct {
		change func(in *installation)
		want   string
	}{
		"fine":       {func(*installation) {}, ""},
		"not paused": {func(in *installation) { in.cluster.Spec.Paused = new(false) }, ""},
		"paused":     {func(in *installation) { in.cluster.Spec.Paused = new(true) }, "ClusterPaused: Cluster is paused"},
		"not initialized": {
			func(in *installation) { in.cluster.Status.Initialization.ControlPlaneInitialized = new(false) },
			"WaitingForControlPlane: Control plane is not initialized yet",
		},
		"unknown": {func(in *installation) { in.cluster.Status.Initialization.ControlPlaneInitialized = nil }, "WaitingForControlPlane: Control plane is not initialized yet"},
		"stalled": {func(in *installation) { in.renderErr = fault.Stall("MissingKey", "no key") }, "MissingKey: no key"},
		"waiting": {func(in *installation) { in.renderErr = fault.Wait("SourceNotFound", "no Secret") }, "SourceNotFound: no Secret"},
		"error":   {func(in *installation) { in.renderErr = errors.New("timeout") }, "Applying: "},
		"error, before": {func(in *installation) {
			in.renderErr, in.previous.Reason, in.previous.Message = errors.New("timeout"), "Ready", "as before"
		}, "Ready: as before"},
	} {
		t.Run(name, func(t *testing.T) {
			in := selected("a")
			test.change(in)
			err := in.checkCluster()
			NewWithT(t).Expect(textOf(err)).To(Equal(test.want))
			NewWithT(t).Expect(fault.Is(err)).To(Equal(test.want != ""))
		})
	}
}

func TestNeedsRequest(t *testing.T) {
	for name, test := range map[string]struct {
		strategy          addonsv1.Strategy
		requested, before string
		needs, keepsFirst bool
	}{
		"nothing requested":     {"", "", "", true, false},
		"other content":         {"", "old", "old", true, false},
		"same content":          {"", "new", "old", false, false},
		"once, first":           {addonsv1.StrategyApplyOnce, "", "", true, false},
		"once, requested":       {addonsv1.StrategyApplyOnce, "new", "", false, false},
		"once, applied":         {addonsv1.StrategyApplyOnce, "old", "old", false, true},
		"reconcile, applied":    {addonsv1.StrategyReconcile, "old", "old", true, false},
		"once, Secret is gone":  {addonsv1.StrategyApplyOnce, "", "old", false, true},
		"Secret is gone":        {"", "", "new", true, false},
		"requested and applied": {"", "new", "new", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: newAddon("flux")}, selected("a")
			s.addon.Spec.Strategy = test.strategy
			if test.requested != "" {
				requested(in, test.requested)
			}
			in.previous.AppliedHash = test.before
			g.Expect(s.needsRequest(in)).To(Equal(test.needs))
			g.Expect(s.keepsFirstContent(in)).To(Equal(test.keepsFirst))
		})
	}
}

func TestCheckOrder(t *testing.T) {
	ready := addonsv1.ClusterAddonStatus{Name: "a", Ready: new(true)}
	for name, test := range map[string]struct {
		addons       []addonsv1.CAPTAddon
		disconnected bool
		applied      string
		budget       int
		want         string
		left         int
	}{
		"dependency is ready": {addons: []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), ready)}, budget: 1, left: 1},
		"first installation needs no budget": {
			addons: []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), ready)},
		},
		"change uses the budget": {addons: []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), ready)}, applied: "old", budget: 2, left: 1},
		"budget is used up": {
			addons: []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), ready)}, applied: "old",
			want: "WaitingForRollout: Waiting for other clusters to become ready: rollout.maxUnavailable limits how many change at once",
		},
		"not connected": {
			addons: []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), ready)}, disconnected: true, applied: "old", budget: 1, left: 1,
			want: "WaitingForControlPlane: Cluster API is not connected to the cluster yet",
		},
		"dependency is not ready": {
			addons:  []addonsv1.CAPTAddon{*withStatus(newAddon("crds"), addonsv1.ClusterAddonStatus{Name: "a", Ready: new(false), Reason: "NotReady", Message: "no pods"})},
			applied: "old", budget: 1, left: 1,
			want: "WaitingForDependency: Add-on crds is not ready: NotReady no pods",
		},
		"cycle": {
			addons: []addonsv1.CAPTAddon{*newAddon("crds", "flux"), *newAddon("flux", "crds")},
			want:   "DependencyCycle: Add-ons depend on each other (flux → crds → flux): remove one dependsOn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: newAddon("flux", "crds"), addons: test.addons}, selected("a")
			in.previous.AppliedHash = test.applied
			if test.disconnected {
				in.cluster.Status.Conditions = nil
			}
			budget := test.budget
			err := s.checkOrder(in, &budget)
			g.Expect(textOf(err)).To(Equal(test.want))
			g.Expect(budget).To(Equal(test.left))
		})
	}
}

func TestCheckDependency(t *testing.T) {
	elsewhere := addonsv1.ClusterAddonStatus{Name: "b", Ready: new(true)}
	for name, test := range map[string]struct {
		status []addonsv1.ClusterAddonStatus
		want   string
	}{
		"ready":        {[]addonsv1.ClusterAddonStatus{elsewhere, {Name: "a", Ready: new(true)}}, ""},
		"not ready":    {[]addonsv1.ClusterAddonStatus{elsewhere, {Name: "a", Ready: new(false), Reason: "Applying"}}, "WaitingForDependency: Add-on crds is not ready: Applying"},
		"not reported": {[]addonsv1.ClusterAddonStatus{{Name: "a"}}, "WaitingForDependency: Add-on crds is not ready: "},
		"not selected": {[]addonsv1.ClusterAddonStatus{elsewhere}, "WaitingForDependency: Add-on crds does not select this cluster: add the labels of its clusterSelector to the Cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{addons: []addonsv1.CAPTAddon{*newAddon("another"), *withStatus(newAddon("crds"), test.status...)}}
			err := s.checkDependency(selected("a"), "crds")
			NewWithT(t).Expect(textOf(err)).To(Equal(test.want))
		})
	}
	NewWithT(t).Expect((&scope{}).checkDependency(selected("a"), "crds")).To(MatchError("WaitingForDependency: Add-on crds does not exist: create it, or remove it from dependsOn"))
}

func TestUpdateStatus_countsClusters(t *testing.T) {
	g := NewWithT(t)
	addon := newAddon("flux")
	addon.Annotations = map[string]string{addonsv1.TriggerAnnotation: "second"}
	addon.Status.HandledTrigger = "first"
	ready, unready, unselected, removed := requested(selected("a"), "new"), requested(selected("b"), "new"), selected("c"), selected("d")
	ready.current.Ready, unready.current.Ready, unselected.current.Ready, removed.current.Ready = new(true), new(false), new(true), new(true)
	unselected.selected, unselected.rendered = false, nil
	removed.removed = true
	s := &scope{addon: addon, installations: []*installation{ready, unready, unselected, removed}}

	s.updateStatus()
	g.Expect(*addon.Status.Matched).To(BeEquivalentTo(2))
	g.Expect(*addon.Status.Ready).To(BeEquivalentTo(1))
	g.Expect(addon.Status.Clusters).To(HaveLen(3), "without the removed one")
	g.Expect(addon.Status.HandledTrigger).To(Equal("second"), "every cluster has the content")

	addon.Status.HandledTrigger = "first"
	requested(unready, "old")
	s.updateStatus()
	g.Expect(addon.Status.HandledTrigger).To(Equal("first"), "one cluster has yet to get the content")
}

func TestSummarize_namesClustersThatAreNotReady(t *testing.T) {
	cluster := func(name string, selected, ready, removed bool) *installation {
		return &installation{name: name, selected: selected, removed: removed, current: addonsv1.ClusterAddonStatus{Name: name, Ready: &ready, Reason: "Applying", Message: "soon"}}
	}
	for name, test := range map[string]struct {
		installations []*installation
		requeue       time.Duration
		want          string
	}{
		"none":    {nil, 0, ""},
		"ready":   {[]*installation{cluster("a", true, true, false)}, time.Minute, ""},
		"removed": {[]*installation{cluster("a", false, false, true), cluster("b", true, false, true)}, 0, ""},
		"not ready": {
			[]*installation{cluster("a", true, true, false), cluster("b", true, false, false)},
			time.Minute,
			"Ready in 1 of 2 clusters; b: Applying soon",
		},
		"being removed": {[]*installation{cluster("a", false, true, false)}, 0, "Ready in 0 of 0 clusters; a: Applying soon"},
		"many": {
			[]*installation{cluster("a", true, false, false), cluster("b", true, false, false), cluster("c", true, false, false), cluster("d", true, false, false)},
			0,
			"Ready in 0 of 4 clusters; a: Applying soon; b: Applying soon; c: Applying soon; and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{addon: newAddon("flux"), installations: test.installations, requeueAfter: test.requeue}
			s.updateStatus()
			err := s.summarize()
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(addonsv1.SomeClustersNotReadyReason))
			g.Expect(waiting.Message()).To(Equal(test.want))
			g.Expect(waiting.RetryAfter).To(Equal(test.requeue))
		})
	}
}

func TestInstalledMessage(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("flux")}
	s.updateStatus()
	g.Expect(installedMessage(s)).To(Equal("No Cluster matches clusterSelector"))
	in := selected("a")
	in.current.Ready = new(true)
	s.installations = []*installation{in}
	s.updateStatus()
	g.Expect(installedMessage(s)).To(Equal("Ready in 1 clusters"))
}

func TestInstallOne_reportsTheStatusOfACluster(t *testing.T) {
	g := NewWithT(t)
	in := selected("a")
	in.cluster.Spec.Paused = new(true)
	in.current.UnreadySince = metav1.NewTime(now)
	budget := 0
	g.Expect((&Reconciler{}).installOne(t.Context(), &scope{addon: newAddon("flux"), now: now}, in, &budget)).To(Succeed())
	g.Expect(in.current.Reason).To(Equal(addonsv1.ClusterPausedReason))
	g.Expect(in.current.UnreadySince.IsZero()).To(BeTrue(), "the timeout does not run while the cluster is paused")
}
