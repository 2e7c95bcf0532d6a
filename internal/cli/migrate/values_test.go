package migrate

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
)

func TestDifferences_returnsPathsWithoutValues(t *testing.T) {
	g := NewWithT(t)
	defaults := map[string]any{"replicas": 2, "settings": map[string]any{"clusterName": "", "batch": "10s"}, "labels": map[string]any{}}
	running := map[string]any{
		"settings":       map[string]any{"clusterName": "demo"},
		"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "secret"}},
	}
	explicit := map[string]any{
		"replicas": float64(2), "settings": map[string]any{"batch": "10s", "clusterName": "demo"},
		"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "secret"}},
	}
	g.Expect(differences(overlay(defaults, running), overlay(defaults, explicit))).To(BeEmpty(), "an explicit default is not a difference")
	other := map[string]any{"settings": map[string]any{"clusterName": nil}, "replicas": 3}
	g.Expect(differences(overlay(defaults, running), overlay(defaults, other))).To(Equal([]string{
		"replicas", `serviceAccount.annotations.eks\.amazonaws\.com/role-arn`, "settings.clusterName",
	}))
}

func TestFluxValues(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{}
	addon.Name = "karpenter"
	addon.Spec.Helm = &addonsv1.HelmRelease{
		Namespace: "karpenter", Chart: addonsv1.ChartSource{Repository: "oci://charts", Name: "karpenter", Version: "1.14.1"},
		Values: &infrav1.Value{Raw: []byte(`{"replicas":1,"settings":{"clusterName":"${CLUSTER_NAME}"}}`)},
		ValuesFrom: []addonsv1.OutputValue{
			{ValuesKey: "endpoint", TargetPath: "settings.clusterEndpoint", Mode: "Literal"},
			{ValuesKey: "on", TargetPath: `flags[1].a\.b`, Mode: "Parsed"},
		},
	}
	rendered, err := addonrender.Render(addonrender.Input{
		Addon: addon, Cluster: addonrender.Cluster{Name: "demo", Namespace: "default"},
		Connection: map[string][]byte{"endpoint": []byte("a,b"), "on": []byte("true")},
	})
	g.Expect(err).NotTo(HaveOccurred())
	values, err := fluxValues(rendered)
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err := json.Marshal(values)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(encoded).To(MatchJSON(`{"replicas": 1, "settings": {"clusterName": "demo", "clusterEndpoint": "a,b"}, "flags": [null, {"a.b": true}]}`))
}

func TestScalar_parsesAsHelmSetDoes(t *testing.T) {
	for text, want := range map[string]any{
		"true": true, "false": false, "null": nil, "12": float64(12), "0": float64(0), "-3": float64(-3),
		"012": "012", "1.5": "1.5", "": "", "yes": "yes",
	} {
		g := NewWithT(t)
		if want == nil {
			g.Expect(scalar(text, false)).To(BeNil())
		} else {
			g.Expect(scalar(text, false)).To(Equal(want), text)
		}
		g.Expect(scalar(text, true)).To(Equal(text), "a literal value stays a string")
	}
}
