package render

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// parseOne returns the object of a text, in generation 2.
func parseOne(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Parse([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(objects).To(HaveLen(1))
	objects[0].SetGeneration(2)
	return objects[0]
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
		"ready":                     {"token", "True", "", "1.14.1", 2, "", false},
		"ready with digest":         {"token", "True", "", "1.14.1+0123abcd", 2, "", false},
		"previous rendering":        {"before", "True", "", "1.14.1", 2, addonsv1.ApplyingReason, false},
		"previous generation":       {"token", "True", "", "1.14.1", 1, addonsv1.ApplyingReason, false},
		"another version":           {"token", "True", "", "1.0.8", 2, addonsv1.ApplyingReason, false},
		"failed":                    {"token", "False", "", "1.14.1", 2, addonsv1.NotReadyReason, false},
		"stalled":                   {"token", "False", `, {type: Stalled, status: "True", message: too often}`, "", 2, addonsv1.ReleaseStalledReason, true},
		"stalled before the change": {"before", "False", `, {type: Stalled, status: "True", message: too often}`, "", 2, addonsv1.ApplyingReason, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			hr := parseOne(t, replace(release, "TOKEN", test.token, "READY", test.ready, "STALLED", test.stalled, "VERSION", test.version))
			g.Expect(unstructured.SetNestedField(hr.Object, test.observed, "status", "observedGeneration")).To(Succeed())
			h := CheckRelease(hr, want)
			g.Expect(h.Ready).To(Equal(test.reason == ""))
			g.Expect(h.Reason).To(Equal(test.reason))
			g.Expect(h.Failed).To(Equal(test.failed))
			g.Expect(Inventory(hr)).To(HaveLen(1), "only workloads")
		})
	}
}

// Flux retries a generation that fails before it sets observedGeneration, and
// reports the rollback rather than the failure.
func TestCheckRelease_reportsWhyHelmFailed(t *testing.T) {
	want := &Release{Namespace: "ns", Name: "r", Version: "1.0.0", Token: "token"}
	rolledBack := map[string]any{"type": "Ready", "status": "False", "observedGeneration": int64(2), "message": "Helm rollback succeeded"}
	failed := map[string]any{"type": "Released", "status": "False", "message": "Helm upgrade failed: denied"}
	stalled := map[string]any{"type": "Stalled", "status": "True", "message": "Failed to upgrade after 3 attempt(s)"}
	for name, test := range map[string]struct {
		observed   int64
		conditions []any
		message    string
	}{
		"not observed":           {1, []any{map[string]any{"type": "Ready", "status": "False", "observedGeneration": int64(1), "message": "old"}}, "Flux has not observed it yet"},
		"retrying":               {1, []any{rolledBack, failed}, "Helm rollback succeeded: Helm upgrade failed: denied"},
		"after the last attempt": {2, []any{rolledBack, failed, stalled}, "Flux has given up: Failed to upgrade after 3 attempt(s): Helm upgrade failed: denied"},
		"source is missing": {2, []any{
			map[string]any{"type": "Ready", "status": "False", "message": "OCIRepository is not ready"}, map[string]any{"type": "Released", "status": "True", "message": "Helm upgrade succeeded"},
		}, "OCIRepository is not ready"},
		"cause is in the message": {2, []any{map[string]any{"type": "Ready", "status": "False", "message": "Helm upgrade failed: denied"}, failed}, "Helm upgrade failed: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			hr := &unstructured.Unstructured{Object: map[string]any{
				"kind": "HelmRelease", "metadata": map[string]any{"name": "r", "namespace": "ns", "generation": int64(2)},
				"status": map[string]any{"observedGeneration": test.observed, "lastHandledReconcileAt": "token", "conditions": test.conditions},
			}}
			NewWithT(t).Expect(CheckRelease(hr, want).Message).To(Equal("HelmRelease ns/r: " + test.message))
		})
	}
}

func TestCheck_byCondition(t *testing.T) {
	g := NewWithT(t)
	obj := parseOne(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nstatus: {conditions: [{type: Synced, status: 'False', message: no route}]}\n")
	g.Expect(Check(obj, "Synced").Message).To(Equal("Thing a: Synced no route"))
	g.Expect(Check(obj, "Synced").Ready).To(BeFalse())
	g.Expect(Check(obj, "Other").Message).To(Equal("Thing a: Other is not reported yet"))
	ready := parseOne(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nstatus: {conditions: [none, {type: Synced, status: 'True'}]}\n")
	g.Expect(Check(ready, "Synced")).To(Equal(Health{Ready: true}))
}

func TestCheck_allowsUnavailablePodsOfADeployment(t *testing.T) {
	const text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {conditions: [{type: Available, status: 'VALUE', message: few}, {type: Progressing, status: 'GOING', message: too long}]}\n"
	for name, test := range map[string]struct {
		value, going             string
		observed, total, updated int64
		message                  string
	}{
		"one is unavailable": {"True", "True", 2, 2, 2, ""},
		"too few":            {"False", "True", 2, 2, 2, "Deployment ns/d: 1 of 2 pods are available: few"},
		"not observed":       {"True", "True", 1, 2, 2, "Deployment ns/d: its controller has not observed the change yet"},
		"old pods exist":     {"True", "True", 2, 3, 2, "Deployment ns/d: 2 of 2 pods run the latest revision"},
		"new pods are few":   {"True", "True", 2, 2, 1, "Deployment ns/d: 1 of 2 pods run the latest revision"},
		"more than desired":  {"True", "True", 2, 3, 3, ""},
		"deadline exceeded":  {"False", "False", 2, 2, 2, "Deployment ns/d: too long"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := parseOne(t, replace(text, "VALUE", test.value, "GOING", test.going))
			for field, value := range map[string]int64{"observedGeneration": test.observed, "replicas": test.total, "updatedReplicas": test.updated, "availableReplicas": 1} {
				g.Expect(unstructured.SetNestedField(obj.Object, value, "status", field)).To(Succeed())
			}
			g.Expect(unstructured.SetNestedField(obj.Object, int64(2), "spec", "replicas")).To(Succeed())
			h := Check(obj, "")
			g.Expect(h.Message).To(Equal(test.message))
			g.Expect(h.Ready).To(Equal(test.message == ""))
			g.Expect(h.Failed).To(Equal(test.going == "False"))
		})
	}
}

func replace(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}

func TestCheck_appliesTheRulesOfTheKind(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: ns}\n"
	for name, test := range map[string]struct {
		text, message string
		failed        bool
	}{
		"no status": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "", false},
		"CRD is not established": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crd}\n", "CustomResourceDefinition crd: Install in progress", false,
		},
		"Job failed": {
			job + "status: {startTime: '2026-11-15T12:00:00Z', conditions: [{type: Failed, status: 'True', message: broken}]}\n", "Job ns/j: Job Failed. failed: 0/1", true,
		},
		"invalid status": {job + "status: {conditions: [1]}\n", "Job ns/j: its status is invalid", false},
		"Deployment without pods": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nstatus: {observedGeneration: 2}\n", "Deployment d: 0 of 1 pods are available: no pod is reported yet", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := Check(parseOne(t, test.text), "")
			g.Expect(h.Message).To(Equal(test.message))
			g.Expect(h.Ready).To(Equal(test.message == ""))
			g.Expect(h.Failed).To(Equal(test.failed))
		})
	}
}

func TestSameVersion(t *testing.T) {
	for _, test := range []struct {
		deployed, desired string
		same              bool
	}{
		{"1.2.3", "1.2.3", true},
		{"1.2.3+0123abcd", "1.2.3", true},
		{"v1.2.3", "1.2.3", true},
		{"1.2.3", "v1.2.3", true},
		{"1.2.3+build", "1.2.3+build", true},
		{"1.2.4", "1.2.3", false},
		{"", "1.2.3", false},
	} {
		NewWithT(t).Expect(sameVersion(test.deployed, test.desired)).To(Equal(test.same), "%s and %s", test.deployed, test.desired)
	}
}

func TestInventory_returnsWorkloads(t *testing.T) {
	hr := parseOne(t, `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: r, namespace: ns}
status: {inventory: {entries: [none, {id: ns_d_apps_Deployment, v: v1}, {id: _role_rbac.authorization.k8s.io_ClusterRole, v: v1}, {id: ns_apps_Deployment}]}}
`)
	NewWithT(t).Expect(Inventory(hr)).To(Equal([]Object{identity("apps", "v1", "Deployment", "ns", "d")}))
}
