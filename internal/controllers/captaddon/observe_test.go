package captaddon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestCheckProbes_reportsAClusterThatIsUnreachableForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		answered time.Duration
		want     string
	}{
		"reachable":       {0, time.Second, ""},
		"rarely probed":   {0, time.Hour, ""},
		"just failed":     {2, 20 * time.Second, ""},
		"at the limit":    {3, 25 * time.Second, "Workload cluster has been unreachable since 2026-11-15T11:59:35Z"},
		"for a while":     {3, 30 * time.Second, "Workload cluster has been unreachable since 2026-11-15T11:59:30Z"},
		"for a long time": {9, time.Minute, "Workload cluster has been unreachable since 2026-11-15T11:59:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := checkProbes(clustercache.HealthCheckingState{ConsecutiveFailures: test.failures, LastProbeSuccessTime: now.Add(-test.answered)}, now)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue())
			g.Expect(waiting.Message()).To(Equal(test.want))
			g.Expect(waiting.RetryAfter).To(Equal(probeInterval))
		})
	}
}

func TestIsWatched(t *testing.T) {
	for gvk, watched := range map[schema.GroupVersionKind]bool{
		{Kind: "Secret"}:                    true,
		{Kind: "ConfigMap"}:                 false,
		{Group: "apps", Kind: "Deployment"}: true,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true,
		{Group: "batch", Kind: "Job"}:                                     false,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                    false,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           false,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:         false,
		{Group: "karpenter.sh", Kind: "NodePool"}:                         true,
		{Group: "source.toolkit.fluxcd.io", Kind: "OCIRepository"}:        true,
	} {
		t.Run(gvk.Kind, func(t *testing.T) {
			NewWithT(t).Expect(isWatched(gvk)).To(Equal(watched))
		})
	}
}

func TestCheckObject_skipsWhatIsNotWatched(t *testing.T) {
	g := NewWithT(t)
	o := &observer{}
	for _, kind := range []schema.GroupVersionKind{{Kind: "ConfigMap"}, {Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}} {
		g.Expect(o.checkObject(t.Context(), nil, render.Object{GroupVersionKind: kind})).To(Succeed(), kind.Kind)
	}
}

func TestCheckContent(t *testing.T) {
	secret := render.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "ns", Name: "s"}
	live := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "data": map[string]any{"a": "Yg=="}}}
	extended := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "data": map[string]any{"a": "Yg==", "theirs": "Yg=="}}}
	digests := map[render.Object]map[string]string{secret: render.DataDigests(live)}
	deployment := render.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "d"}
	unavailable := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "generation": int64(1)}}}
	definition := render.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, Name: "c"}
	notEstablished := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "c"}}}
	pool := render.Object{GroupVersionKind: schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, Name: "p"}
	for name, test := range map[string]struct {
		secrets map[render.Object]map[string]string
		object  render.Object
		live    *unstructured.Unstructured
		want    *problem
	}{
		"same Secret":    {digests, secret, live, nil},
		"foreign key":    {digests, secret, extended, nil},
		"changed Secret": {map[render.Object]map[string]string{secret: {"a": "other"}}, secret, live, &problem{reason: addonsv1.DriftedReason, message: "Secret ns/s was changed", drifted: true}},
		"missing key": {
			map[render.Object]map[string]string{secret: render.DataDigests(extended)},
			secret, live,
			&problem{reason: addonsv1.DriftedReason, message: "Secret ns/s was changed", drifted: true},
		},
		"unknown Secret": {nil, secret, live, nil},
		"Deployment": {nil, deployment, unavailable, &problem{
			reason: addonsv1.NotReadyReason, message: "Deployment d: its controller has not observed the change yet",
		}},
		"CRD":             {nil, definition, notEstablished, &problem{reason: addonsv1.NotReadyReason, message: "CustomResourceDefinition c: Install in progress"}},
		"custom resource": {nil, pool, unavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkContent(&rendering{Rendered: &render.Rendered{Secrets: test.secrets}}, test.object, test.live)
			if test.want == nil {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(Equal(test.want))
		})
	}
}

// The author of an add-on chooses the kind. A watch would have all Pods of the cluster in
// the memory of the manager.
func TestCheckReadiness_watchesNoKindWithManyObjects(t *testing.T) {
	pod := func(name, ready string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "a"}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(ready), Message: "starting"}}},
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	for name, test := range map[string]struct {
		check addonsv1.ReadinessCheck
		want  string
	}{
		"by name":     {addonsv1.ReadinessCheck{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "ready", Condition: "Ready"}, ""},
		"missing":     {addonsv1.ReadinessCheck{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "other", Condition: "Ready"}, "Pod ns/other does not exist"},
		"by selector": {addonsv1.ReadinessCheck{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Selector: selector, Condition: "Ready"}, "Pod ns/starting: Ready starting"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := workloadCluster(t, pod("ready", "True"), pod("starting", "False"))
			key := client.ObjectKey{Namespace: "fleet", Name: "a"}
			// A watch that is not in the list of this cache would fail.
			o := &observer{r: &Reconciler{Clusters: clustercache.NewFakeClusterCache(c, key)}, c: nil, cluster: key}
			err := o.checkReadiness(t.Context(), test.check)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(Equal(&problem{reason: addonsv1.NotReadyReason, message: test.want}))
		})
	}
}

// cacheReader lists like the cache of controller-runtime: everything at once, with a
// token that it does not accept.
type cacheReader struct{ client.Client }

func (c cacheReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if token := (&client.ListOptions{}).ApplyOptions(options).Continue; token != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	if err := c.Client.List(ctx, list, options...); err != nil {
		return err
	}
	list.SetContinue("continue-not-supported")
	return nil
}

func TestCheckSelected_readsACacheOnce(t *testing.T) {
	g := NewWithT(t)
	labelled := map[string]string{"app": "a"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: labelled},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	o := &observer{c: cacheReader{workloadCluster(t, pod)}}
	check := addonsv1.ReadinessCheck{Kind: "Pod", Namespace: "ns", Condition: "Ready"}
	g.Expect(o.checkSelected(t.Context(), corev1.SchemeGroupVersion.WithKind("Pod"), check, labels.SelectorFromSet(labelled))).To(Succeed())
}

func TestIsWatchedForReadiness(t *testing.T) {
	for kind, watched := range map[string]bool{
		"v1 Pod": false, "v1 Event": false, "v1 Secret": false, "v1 Node": false, "events.k8s.io/v1 Event": false, "batch/v1 Job": false,
		"apps/v1 ReplicaSet": false, "apps/v1 Deployment": true, "apps/v1 DaemonSet": true, "apps/v1 StatefulSet": true,
		"karpenter.sh/v1 NodePool": true, "apiextensions.k8s.io/v1 CustomResourceDefinition": true,
	} {
		version, name, _ := strings.Cut(kind, " ")
		NewWithT(t).Expect(isWatchedForReadiness(addonsv1.ReadinessCheck{APIVersion: version, Kind: name})).To(Equal(watched), kind)
	}
}

func TestCheckAll(t *testing.T) {
	check := addonsv1.ReadinessCheck{Kind: "NodePool", Condition: "Ready"}
	pool := func(status string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"kind": "NodePool", "metadata": map[string]any{"name": "p"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "message": "no nodes"}}},
		}}
	}
	selector := labels.SelectorFromSet(labels.Set{"a": "b"})
	for name, test := range map[string]struct {
		items []unstructured.Unstructured
		want  string
	}{
		"none":      {nil, "No NodePool with the labels a=b exists"},
		"ready":     {[]unstructured.Unstructured{pool("True"), pool("True")}, ""},
		"not ready": {[]unstructured.Unstructured{pool("True"), pool("False")}, "NodePool p: Ready no nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkAll(test.items, check, selector)
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(Equal(&problem{reason: addonsv1.NotReadyReason, message: test.want}))
		})
	}
}

func TestNotDrifted_neverRepairs(t *testing.T) {
	g := NewWithT(t)
	g.Expect(notDrifted(&problem{reason: addonsv1.DriftedReason, message: "m", drifted: true})).To(Equal(&problem{reason: addonsv1.NotReadyReason, message: "m"}))
	other := errors.New("refused")
	g.Expect(notDrifted(other)).To(MatchError(other))
}

// Only Flux reports for certain that it has stopped trying.
func TestCheckHealth(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkHealth(render.Health{Ready: true, Failed: true})).To(Succeed())
	g.Expect(checkHealth(render.Health{Reason: addonsv1.NotReadyReason, Message: "m", Failed: true})).To(Equal(&problem{reason: addonsv1.NotReadyReason, message: "m"}))
	g.Expect(checkHealth(render.Health{Reason: addonsv1.ReleaseStalledReason, Message: "m", Failed: true})).To(Equal(&problem{reason: addonsv1.ReleaseStalledReason, message: "m", failed: true}))
	g.Expect(checkHealth(render.Health{Reason: addonsv1.ReleaseStalledReason, Message: "m"})).To(Equal(&problem{reason: addonsv1.ReleaseStalledReason, message: "m"}))
}

func TestMayChangeReadiness(t *testing.T) {
	object := func(change func(map[string]any)) *unstructured.Unstructured {
		content := map[string]any{"metadata": map[string]any{"generation": int64(1)}, "status": map[string]any{"a": "b"}, "data": map[string]any{"a": "b"}}
		change(content)
		return &unstructured.Unstructured{Object: content}
	}
	metadataOf := func(content map[string]any) map[string]any { return content["metadata"].(map[string]any) }
	for name, test := range map[string]struct {
		change func(map[string]any)
		want   bool
	}{
		"nothing":    {func(map[string]any) {}, false},
		"label":      {func(c map[string]any) { metadataOf(c)["labels"] = map[string]any{"a": "b"} }, false},
		"generation": {func(c map[string]any) { metadataOf(c)["generation"] = int64(2) }, true},
		"status":     {func(c map[string]any) { c["status"] = map[string]any{"a": "c"} }, true},
		"data":       {func(c map[string]any) { c["data"] = map[string]any{"a": "c"} }, true},
		"deletion":   {func(c map[string]any) { metadataOf(c)["deletionTimestamp"] = "2026-11-15T12:00:00Z" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			same := object(func(map[string]any) {})
			g.Expect(mayChangeReadiness(event.UpdateEvent{ObjectOld: same, ObjectNew: object(test.change)})).To(Equal(test.want))
			g.Expect(mayChangeReadiness(event.UpdateEvent{ObjectOld: same, ObjectNew: &corev1.Secret{}})).To(BeTrue())
			g.Expect(mayChangeReadiness(event.UpdateEvent{ObjectOld: &corev1.Secret{}, ObjectNew: same})).To(BeTrue())
		})
	}
}
