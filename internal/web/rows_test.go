package web

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/testenv"
)

var day = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func at(minutes int) metav1.Time {
	return metav1.NewTime(day.Add(time.Duration(minutes) * time.Minute))
}

func oneCondition(name string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: at(5)}}
}

// fleetCluster returns a Cluster that is available, with items.
func fleetCluster(items ...client.Object) *describe.Objects {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo", UID: "demo", CreationTimestamp: day}}
	cluster.Status.Conditions = oneCondition(clusterv1.AvailableCondition, metav1.ConditionTrue, "Available", "")
	return &describe.Objects{Cluster: cluster, Items: items}
}

func fleetWorkspace(name string, ready []metav1.Condition) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}, CreationTimestamp: day,
	}}
	apply.Status.Conditions = ready
	return apply
}

func TestNewWorkspaceRow_saysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	alone := fleetWorkspace("dns", oneCondition("Ready", metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "Plan waits"))
	alone.Labels, alone.Spec.TemplateRef.Name = nil, "zone"
	alone.Status.State = &infrav1.StateStatus{Resources: 3}
	g.Expect(newWorkspaceRow(alone)).To(Equal(&WorkspaceRow{
		Namespace: "a", Name: "dns", State: describe.StateAttention, Reason: infrav1.WaitingForApprovalReason, Message: "Plan waits",
		Created: day, Template: "zone", Resources: 3, What: "Approval",
	}))

	running := fleetWorkspace("net", oneCondition("Ready", metav1.ConditionFalse, infrav1.RunInProgressReason, "Run net-r1"))
	running.Status.Run = &infrav1.RunStatus{ID: "net-r1", Operation: "Apply", Progress: &infrav1.RunProgress{Phase: "Applying", Done: 3, Total: 14}}
	row := newWorkspaceRow(running)
	g.Expect(row.Cluster).To(Equal("demo"))
	g.Expect(row.Message).To(Equal("Applying: 3 of 14 resources"))
	g.Expect(row.What).To(BeEmpty())

	paused := fleetWorkspace("paused", append(oneCondition("Ready", metav1.ConditionTrue, "Applied", ""), oneCondition(clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "")...))
	trim(paused)
	g.Expect(newWorkspaceRow(paused).Paused).To(BeTrue())

	ready := newWorkspaceRow(fleetWorkspace("done", oneCondition("Ready", metav1.ConditionTrue, "Applied", "")))
	g.Expect(ready.State).To(Equal(describe.StateReady))
	g.Expect(ready.Message).To(BeEmpty())
}

func TestNewRow_hasTheWorstStateAndItsCause(t *testing.T) {
	t.Parallel()
	notReady := func(reason, message string) []metav1.Condition {
		return oneCondition("Ready", metav1.ConditionFalse, reason, message)
	}
	foreign := fleetWorkspace("foreign", notReady(infrav1.RunFailedReason, "no"))
	foreign.Labels[clusterv1.ClusterNameLabel] = "other"
	running := fleetWorkspace("net", notReady(infrav1.RunInProgressReason, "Run net-r1"))
	running.Status.Run = &infrav1.RunStatus{ID: "net-r1", Operation: "Apply", Progress: &infrav1.RunProgress{Phase: "Applying", Done: 3, Total: 14}}
	for name, test := range map[string]struct {
		objects *describe.Objects
		state   describe.State
		message string
		needs   []Attention
	}{
		"ready":                  {fleetCluster(), describe.StateReady, "", nil},
		"another cluster's":      {fleetCluster(foreign), describe.StateReady, "", nil},
		"waits for approval":     {fleetCluster(fleetWorkspace("net", notReady(infrav1.WaitingForApprovalReason, "Plan waits"))), describe.StateAttention, "Workspace net: Plan waits", []Attention{{"Approval", "net"}}},
		"failed beats attention": {fleetCluster(fleetWorkspace("a", notReady(infrav1.RunFailedReason, "It broke")), fleetWorkspace("b", notReady(infrav1.LockHeldReason, "Locked"))), describe.StateFailed, "Workspace a: It broke", []Attention{{"Failed", "a"}, {"Lock", "b"}}},
		"the first cause":        {fleetCluster(running, fleetWorkspace("z", notReady("WaitingForDependency", "Waits"))), describe.StateWaiting, "Applying: 3 of 14 resources", nil},
		"progress":               {fleetCluster(running), describe.StateWaiting, "Applying: 3 of 14 resources", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			row := newRow(test.objects)
			g.Expect(row.State).To(Equal(test.state))
			g.Expect(row.Message).To(Equal(test.message))
			g.Expect(row.Attention).To(Equal(test.needs))
		})
	}
}

func TestNewRow_hasTheStrictestDecisionOfPolicies(t *testing.T) {
	t.Parallel()
	decided := func(name string, waiting bool, action infrav1.PolicyAction) client.Object {
		apply := fleetWorkspace(name, nil)
		apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Waiting: &waiting, PolicyAction: action}
		return apply
	}
	for name, test := range map[string]struct {
		items []client.Object
		want  infrav1.PolicyAction
	}{
		"no plan":                {[]client.Object{fleetWorkspace("a", nil)}, ""},
		"no policy":              {[]client.Object{decided("a", true, "")}, ""},
		"applied with a warning": {[]client.Object{decided("a", false, infrav1.PolicyWarn)}, infrav1.PolicyWarn},
		"approved and applied":   {[]client.Object{decided("a", false, infrav1.PolicyRequireApproval)}, ""},
		"the strictest": {
			[]client.Object{decided("a", true, infrav1.PolicyRequireApproval), decided("b", true, infrav1.PolicyDeny), decided("c", false, infrav1.PolicyWarn)},
			infrav1.PolicyDeny,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(newRow(fleetCluster(test.items...)).Policy).To(Equal(test.want))
		})
	}
}

func TestNewRow_showsAddons(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := fleetCluster()
	objects.Addons = []addonsv1.CAPTAddon{
		{ObjectMeta: metav1.ObjectMeta{Name: "flux"}, Status: addonsv1.CAPTAddonStatus{Clusters: []addonsv1.ClusterAddonStatus{{Name: "demo", Ready: new(true), Reason: "Ready"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Status: addonsv1.CAPTAddonStatus{Clusters: []addonsv1.ClusterAddonStatus{{Name: "demo", Reason: addonsv1.ApplyFailedReason, Message: "no"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: addonsv1.CAPTAddonSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
	}
	row := newRow(objects)
	g.Expect(row.Addons).To(Equal(map[string]Badge{"flux": {describe.StateReady, "Ready"}, "broken": {describe.StateFailed, addonsv1.ApplyFailedReason}}))
	g.Expect(row.State).To(Equal(describe.StateFailed))
}

// The page repeats the types of the server: a field that one of them lacks is an error.
func TestTypes_areThoseOfThePage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	source, err := os.ReadFile(filepath.Join(root, "ui", "src", "types.ts"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, value := range []any{Problem{}, Login{}, Session{}, Denied{}, Loading{}, Row{}, Badge{}, Attention{}, Rows[Row]{}, WorkspaceRow{}, Cluster{}, Condition{}, Workspace{}, Addon{}, AddonCluster{}, Addons{}, Event{}, Span{}, PlanLine{}, PlanEnd{}, Can{}, infrav1.PolicyViolation{}} {
		kind := reflect.TypeOf(value)
		typeName, _, generic := strings.Cut(kind.Name(), "[")
		if generic {
			typeName += "<T>"
		}
		body := regexp.MustCompile(`(?s)export interface ` + typeName + ` \{\n(.*?)\n\}`).FindSubmatch(source)
		g.Expect(body).NotTo(BeNil(), typeName)
		var want []string
		for field := range kind.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if strings.HasPrefix(options, "omit") {
				name += "?"
			}
			want = append(want, name)
		}
		var have []string
		for _, field := range regexp.MustCompile(`(?m)^  (\w+\??): `).FindAllSubmatch(body[1], -1) {
			have = append(have, string(field[1]))
		}
		g.Expect(have).To(Equal(want), typeName)
	}
}

// Lists are in the order of names.
func TestEventLog_keepsTheLatest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	start := time.Now().Truncate(time.Second)
	event := func(i int, count int32) Event {
		return Event{ID: fmt.Sprint(i), Count: count, Last: metav1.NewTime(start.Add(time.Duration(i) * time.Second))}
	}
	var log eventLog
	for i := maxEvents + 100; i > 0; i-- {
		g.Expect(log.add(event(i, 1))).To(Equal(i > 100), "event %d", i)
	}
	g.Expect(log.entries).To(HaveLen(maxEvents))
	g.Expect(log.entries[0].ID).To(Equal("101"))
	g.Expect(log.entries[maxEvents-1].ID).To(Equal(fmt.Sprint(maxEvents + 100)))

	view := &eventsView{}
	sent := func() []Event {
		events := view.events(&objects{events: log}, nil, false)
		if len(events) == 0 {
			return nil
		}
		return events[0].data.([]Event)
	}
	g.Expect(sent()).To(HaveLen(maxEvents))
	g.Expect(log.add(event(50, 1))).To(BeFalse(), "an event that was forgotten")
	g.Expect(log.add(event(200, 1))).To(BeFalse(), "an event that is known")
	again := event(maxEvents+200, 2)
	again.ID = "200"
	g.Expect(log.add(again)).To(BeTrue())
	g.Expect(log.entries[maxEvents-1].ID).To(Equal("200"))
	g.Expect(sent()).To(ConsistOf(again), "only what is new")
	g.Expect(sent()).To(BeEmpty())
}

func TestTrim_keepsWhatViewsShow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Namespace: "a", Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: meta}
	apply.Spec.TemplateRef.Name, apply.Spec.RequiredOutputs = "vpc", []string{"x"}
	apply.Status.Runs = 3
	trim(apply)
	g.Expect(apply.Annotations).To(BeEmpty())
	g.Expect(apply.Labels).To(HaveLen(1))
	g.Expect(apply.Spec).To(Equal(infrav1.WorkspaceTemplateApplySpec{TemplateRef: apply.Spec.TemplateRef}))
	g.Expect(apply.Status.Runs).To(Equal(int64(3)))

	addon := &addonsv1.CAPTAddon{ObjectMeta: meta}
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "large"}}
	addon.Spec.Helm = &addonsv1.HelmRelease{Namespace: "n"}
	addon.Spec.Helm.Chart.Name = "chart"
	trim(addon)
	g.Expect(addon.Spec.Manifests).To(BeEmpty())
	g.Expect(addon.Spec.Helm.Chart.Name).To(Equal("chart"))

	own := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "n", UID: "x"}, Reason: "R", Message: "M", Count: 2, Action: "Act"}
	want, found := newEvent(own.DeepCopy())
	g.Expect(found).To(BeTrue())
	trim(own)
	got, found := newEvent(own)
	g.Expect(found).To(BeTrue())
	g.Expect(got).To(Equal(want))
	g.Expect(own.Action).To(BeEmpty())
	foreign := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod"}, Message: "large"}
	trim(foreign)
	g.Expect(foreign.Message).To(BeEmpty())
	g.Expect(foreign.UID).To(Equal(types.UID("u")))
}
