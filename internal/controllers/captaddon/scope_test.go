package captaddon

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestNewScope_findsTheClustersOfAnAddon(t *testing.T) {
	g := NewWithT(t)
	addon := withStatus(newAddon("flux"), addonsv1.ClusterAddonStatus{Name: "left", Attempts: 3}, addonsv1.ClusterAddonStatus{Name: "deleted"})
	addon.Spec.ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"fluxcd.io/enabled": "true"}}
	ofCluster := metav1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterNameLabel: "orphan"}}

	plain, deleting, other := newCluster("plain"), newCluster("deleting"), newCluster("other")
	deleting.DeletionTimestamp = &metav1.Time{Time: now}
	other.Labels = nil
	left := newCluster("left")
	left.Labels = nil
	plain.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "cp"}
	left.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "other.example.com", Kind: "CAPTControlPlane", Name: "cp"}
	s, err := newScope(addon, now, related{
		addons:        []addonsv1.CAPTAddon{*newAddon("b"), *newAddon("a")},
		clusters:      []clusterv1.Cluster{*plain, *deleting, *other, *left},
		controlPlanes: []controlplanev1.CAPTControlPlane{{ObjectMeta: metav1.ObjectMeta{Name: "cp"}}},
		resourceSets:  []clusteraddonsv1.ClusterResourceSet{{ObjectMeta: ofCluster}},
		secrets:       []corev1.Secret{{ObjectMeta: ofCluster}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.addons[0].Name).To(Equal("a"), "messages name the first")

	byName := map[string]*installation{}
	var names []string
	for _, in := range s.installations {
		byName[in.name], names = in, append(names, in.name)
	}
	g.Expect(names).To(Equal([]string{"deleted", "left", "orphan", "plain"}), "sorted; other was never selected, deleting has nothing of the add-on")
	g.Expect(byName["plain"].selected).To(BeTrue())
	g.Expect(byName["plain"].controlPlane).NotTo(BeNil())
	g.Expect(byName["plain"].previous.Name).To(Equal("plain"))
	g.Expect(byName["left"].selected).To(BeFalse(), "its label was removed")
	g.Expect(byName["left"].cluster).NotTo(BeNil())
	g.Expect(byName["left"].controlPlane).To(BeNil(), "it is of another provider")
	g.Expect(byName["left"].current.Attempts).To(BeEquivalentTo(3), "the status is kept")
	g.Expect(byName["deleted"].cluster).To(BeNil())
	g.Expect(byName["orphan"].resourceSet).NotTo(BeNil())
	g.Expect(byName["orphan"].secret).NotTo(BeNil())
}

func TestNewScope_selectsNothingForADeletedAddon(t *testing.T) {
	g := NewWithT(t)
	addon := withStatus(newAddon("flux"), addonsv1.ClusterAddonStatus{Name: "a"})
	addon.DeletionTimestamp = &metav1.Time{Time: now}
	s, err := newScope(addon, now, related{clusters: []clusterv1.Cluster{*newCluster("a"), *newCluster("b")}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.installations).To(HaveLen(1))
	g.Expect(s.installations[0].selected).To(BeFalse())
}

func TestNewScope_refusesAnInvalidSelector(t *testing.T) {
	addon := newAddon("flux")
	addon.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}
	_, err := newScope(addon, now, related{})
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("InvalidManifest: clusterSelector is invalid: ")))
}

func TestInitialized(t *testing.T) {
	g := NewWithT(t)
	in := selected("a")
	g.Expect(in.initialized()).To(BeTrue())
	in.cluster.Status.Initialization.ControlPlaneInitialized = nil
	g.Expect(in.initialized()).To(BeFalse())
	in.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	g.Expect(in.initialized()).To(BeTrue(), "it has no control plane in the management cluster: only a connection shows whether it exists")
}

func TestRenderCluster_prefersTheVersionOfTheControlPlane(t *testing.T) {
	g := NewWithT(t)
	in := selected("a")
	in.cluster.Spec.Topology.Version = "v1.35.0"
	g.Expect(in.renderCluster().KubernetesVersion).To(Equal("v1.35.0"))
	in.controlPlane = &controlplanev1.CAPTControlPlane{}
	g.Expect(in.renderCluster().KubernetesVersion).To(Equal("v1.35.0"))
	in.controlPlane.Status.Version = "v1.34.2"
	g.Expect(in.renderCluster().KubernetesVersion).To(Equal("v1.34.2"))
	g.Expect(in.renderCluster().Namespace).To(Equal("fleet"))
}

func TestCheckWorkspace(t *testing.T) {
	for name, test := range map[string]struct {
		change func(in *installation)
		want   string
	}{
		"other provider": {func(*installation) {}, ""},
		"known": {func(in *installation) {
			in.ofCAPT, in.controlPlane = true, &controlplanev1.CAPTControlPlane{}
			in.controlPlane.Status.WorkspaceRef = &infrav1.LocalReference{Name: "a-1"}
		}, ""},
		"no workspace": {
			func(in *installation) { in.ofCAPT, in.controlPlane = true, &controlplanev1.CAPTControlPlane{} },
			"WaitingForControlPlane: Control plane has no workspace yet",
		},
		"no control plane": {func(in *installation) { in.ofCAPT = true }, "WaitingForControlPlane: Control plane has no workspace yet"},
	} {
		t.Run(name, func(t *testing.T) {
			in := selected("a")
			test.change(in)
			err := in.checkWorkspace()
			NewWithT(t).Expect(textOf(err)).To(Equal(test.want))
		})
	}
}

func TestRequestedHash_needsSecretAndResourceSet(t *testing.T) {
	g := NewWithT(t)
	in := requested(selected("a"), "hash")
	g.Expect(in.requestedHash()).To(Equal("hash"))
	in.resourceSet = nil
	g.Expect(in.requestedHash()).To(BeEmpty())
	in = requested(selected("a"), "hash")
	in.secret = nil
	g.Expect(in.requestedHash()).To(BeEmpty())
}

func TestReport_recordsSinceWhenTheReasonHolds(t *testing.T) {
	for name, test := range map[string]struct {
		previous addonsv1.ClusterAddonStatus
		since    metav1.Time
	}{
		"same reason":  {addonsv1.ClusterAddonStatus{Reason: "Waiting", Since: ago(time.Hour)}, ago(time.Hour)},
		"other reason": {addonsv1.ClusterAddonStatus{Reason: "Ready", Since: ago(time.Hour)}, ago(0)},
		"first report": {addonsv1.ClusterAddonStatus{Reason: "Waiting"}, ago(0)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := &installation{previous: test.previous, current: test.previous}
			in.report(&scope{now: now.Add(time.Millisecond)}, false, "Waiting", strings.Repeat("x", 2000))
			g.Expect(in.current.Since.Time).To(BeTemporally("==", test.since.Time))
			g.Expect(in.current.Reason).To(Equal("Waiting"))
			g.Expect(in.ready()).To(BeFalse())
			g.Expect(len(in.current.Message)).To(Equal(1024))
		})
	}
}

func TestReportFault(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{now: now}, &installation{}
	g.Expect(in.reportFault(s, fault.Wait("A", "a"))).To(Succeed())
	g.Expect(in.current.Reason).To(Equal("A"))
	g.Expect(in.current.Message).To(Equal("a"))
	g.Expect(s.requeueAfter).To(BeZero(), "a watch wakes the controller")

	g.Expect(in.reportFault(s, fault.WaitFor(time.Minute, "B", "b"))).To(Succeed())
	g.Expect(s.requeueAfter).To(Equal(time.Minute))
	g.Expect(in.reportFault(s, fault.Stall("C", "c"))).To(Succeed())
	g.Expect(in.current.Reason).To(Equal("C"))

	broken := errors.New("connection refused")
	g.Expect(in.reportFault(s, broken)).To(MatchError(broken))
	g.Expect(in.current.Reason).To(Equal("C"), "an error changes nothing")
}

func TestRequeue_keepsTheEarliest(t *testing.T) {
	g := NewWithT(t)
	s := &scope{}
	waiting, _ := fault.AsWaiting(s.wait("R", "text"))
	g.Expect(waiting.RetryAfter).To(BeZero())
	s.requeue(time.Minute)
	s.requeue(time.Hour)
	g.Expect(s.requeueAfter).To(Equal(time.Minute))
	s.requeue(time.Millisecond)
	g.Expect(s.requeueAfter).To(Equal(time.Second), "never faster than once a second")
	waiting, found := fault.AsWaiting(s.wait("R", "100%"))
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.RetryAfter).To(Equal(time.Second))
	g.Expect(waiting.Message()).To(Equal("100%"))
}

func TestReadiness_isFalseUntilReported(t *testing.T) {
	g := NewWithT(t)
	in := &installation{}
	g.Expect(in.ready()).To(BeFalse())
	g.Expect(in.wasReady()).To(BeFalse())
	in.current.Ready, in.previous.Ready = new(true), new(false)
	g.Expect(in.ready()).To(BeTrue())
	g.Expect(in.wasReady()).To(BeFalse())
}

func TestLacksOnlyResourceSet(t *testing.T) {
	secret := func(hash string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{addonsv1.HashAnnotation: hash}}}
	}
	set := &clusteraddonsv1.ClusterResourceSet{}
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		set     *clusteraddonsv1.ClusterResourceSet
		applied string
		want    bool
	}{
		"replaced":                       {secret("h"), nil, "h", true},
		"complete":                       {secret("h"), set, "h", false},
		"never installed":                {nil, nil, "", false},
		"another content":                {secret("old"), nil, "old", false},
		"requested, and not yet applied": {secret("h"), nil, "old", false},
	} {
		in := selected("c")
		in.secret, in.resourceSet, in.rendered.Hash = test.secret, test.set, "h"
		in.previous.AppliedHash = test.applied
		NewWithT(t).Expect(in.lacksOnlyResourceSet()).To(Equal(test.want), name)
	}
}
