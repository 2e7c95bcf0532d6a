package render

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

func object1(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &obj.Object)).To(Succeed())
	// The decoder gives floats, an API server integers.
	obj.SetGeneration(2)
	return obj
}

const release = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: karpenter, namespace: karpenter}
status:
  lastHandledReconcileAt: TOKEN
  conditions: [{type: Ready, status: "READY", message: m}STALLED]
  history: [{chartVersion: VERSION}]
  inventory: {entries: [{id: karpenter_karpenter_apps_Deployment, v: v1}, {id: _karpenter__ServiceAccount, v: v1}]}
`

func TestCheckRelease(t *testing.T) {
	want := &Release{Namespace: "karpenter", Name: "karpenter", Version: "1.14.1", Token: "token"}
	for name, test := range map[string]struct {
		token, ready, stalled, version string
		observed                       int64
		reason                         string
		failed                         bool
	}{
		"ready":                      {"token", "True", "", "1.14.1", 2, "", false},
		"ready by digest":            {"token", "True", "", "1.14.1+0123abcd", 2, "", false},
		"of an earlier rendering":    {"before", "True", "", "1.14.1", 2, addonsv1.ApplyingReason, false},
		"of an earlier generation":   {"token", "True", "", "1.14.1", 1, addonsv1.ApplyingReason, false},
		"another chart":              {"token", "True", "", "1.0.8", 2, addonsv1.ApplyingReason, false},
		"failed":                     {"token", "False", "", "1.14.1", 2, addonsv1.NotReadyReason, false},
		"given up":                   {"token", "False", `, {type: Stalled, status: "True", message: too often}`, "", 2, addonsv1.ReleaseStalledReason, true},
		"given up before the change": {"before", "False", `, {type: Stalled, status: "True", message: too often}`, "", 2, addonsv1.ApplyingReason, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			hr := object1(t, replaced(release, "TOKEN", test.token, "READY", test.ready, "STALLED", test.stalled, "VERSION", test.version))
			g.Expect(unstructured.SetNestedField(hr.Object, test.observed, "status", "observedGeneration")).To(Succeed())
			h := CheckRelease(hr, want)
			g.Expect(h.Ready).To(Equal(test.reason == ""))
			g.Expect(h.Reason).To(Equal(test.reason))
			g.Expect(h.Failed).To(Equal(test.failed))
			g.Expect(Inventory(hr)).To(HaveLen(1), "what runs pods")
		})
	}
}

// Flux goes on for a while with a generation that fails before it calls it
// observed, and tells of the rollback rather than of what was rolled back.
func TestCheckRelease_saysWhyHelmFailed(t *testing.T) {
	want := &Release{Namespace: "ns", Name: "r", Version: "1.0.0", Token: "token"}
	rolledBack := map[string]any{"type": "Ready", "status": "False", "observedGeneration": int64(2), "message": "Helm rollback succeeded"}
	failed := map[string]any{"type": "Released", "status": "False", "message": "Helm upgrade failed: denied"}
	stalled := map[string]any{"type": "Stalled", "status": "True", "message": "Failed to upgrade after 3 attempt(s)"}
	for name, test := range map[string]struct {
		observed   int64
		conditions []any
		says       string
	}{
		"before it is looked at": {1, []any{map[string]any{"type": "Ready", "status": "False", "observedGeneration": int64(1), "message": "old"}}, "Flux has not taken it up yet"},
		"while it is tried":      {1, []any{rolledBack, failed}, "Helm rollback succeeded: Helm upgrade failed: denied"},
		"after the last attempt": {2, []any{rolledBack, failed, stalled}, "Flux has given up: Failed to upgrade after 3 attempt(s): Helm upgrade failed: denied"},
		"the source is missing": {2, []any{
			map[string]any{"type": "Ready", "status": "False", "message": "OCIRepository is not ready"}, map[string]any{"type": "Released", "status": "True", "message": "Helm upgrade succeeded"},
		}, "OCIRepository is not ready"},
		"it says so itself": {2, []any{map[string]any{"type": "Ready", "status": "False", "message": "Helm upgrade failed: denied"}, failed}, "Helm upgrade failed: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			hr := &unstructured.Unstructured{Object: map[string]any{
				"kind": "HelmRelease", "metadata": map[string]any{"name": "r", "namespace": "ns", "generation": int64(2)},
				"status": map[string]any{"observedGeneration": test.observed, "lastHandledReconcileAt": "token", "conditions": test.conditions},
			}}
			NewWithT(t).Expect(CheckRelease(hr, want).Message).To(Equal("HelmRelease ns/r: " + test.says))
		})
	}
}

func TestCheck_byCondition(t *testing.T) {
	g := NewWithT(t)
	obj := object1(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nstatus: {conditions: [{type: Synced, status: 'False', message: no route}]}\n")
	g.Expect(Check(obj, "Synced").Message).To(Equal("Thing a: Synced no route"))
	g.Expect(Check(obj, "Other").Message).To(Equal("Thing a: Other is not reported yet"))
}

func TestCheck_takesADeploymentByItsStrategy(t *testing.T) {
	const text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {conditions: [{type: Available, status: 'VALUE', message: few}, {type: Progressing, status: 'GOING', message: too long}]}\n"
	for name, test := range map[string]struct {
		value, going             string
		observed, total, updated int64
		says                     string
	}{
		"all there":          {"True", "True", 2, 2, 2, ""},
		"one may be missing": {"True", "True", 2, 2, 2, ""},
		"too few":            {"False", "True", 2, 2, 2, "Deployment ns/d: 1 of 2 pods are available: few"},
		"before it was seen": {"True", "True", 1, 2, 2, "Deployment ns/d: its controller has not seen the change yet"},
		"old pods are left":  {"True", "True", 2, 3, 2, "Deployment ns/d: 2 of 2 pods are of the latest revision"},
		"new pods are few":   {"True", "True", 2, 2, 1, "Deployment ns/d: 1 of 2 pods are of the latest revision"},
		"it takes too long":  {"False", "False", 2, 2, 2, "Deployment ns/d: too long"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := object1(t, replaced(text, "VALUE", test.value, "GOING", test.going))
			for field, value := range map[string]int64{"observedGeneration": test.observed, "replicas": test.total, "updatedReplicas": test.updated, "availableReplicas": 1} {
				g.Expect(unstructured.SetNestedField(obj.Object, value, "status", field)).To(Succeed())
			}
			g.Expect(unstructured.SetNestedField(obj.Object, int64(2), "spec", "replicas")).To(Succeed())
			h := Check(obj, "")
			g.Expect(h.Message).To(Equal(test.says))
			g.Expect(h.Ready).To(Equal(test.says == ""))
		})
	}
}

func replaced(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
