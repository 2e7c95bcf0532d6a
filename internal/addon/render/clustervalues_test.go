package render

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// withClusterValues returns the input of an add-on with a value of each kind.
func withClusterValues(values string) Input {
	addon := karpenter()
	addon.Spec.Helm.ValuesFrom, addon.Spec.Connection = nil, nil
	addon.Spec.Helm.Values = &infrav1.Value{Raw: []byte(values)}
	addon.Spec.ClusterValues = []addonsv1.ClusterValue{
		{Name: "TEAM", Label: "example.com/team"},
		{Name: "CONTACT", Annotation: "example.com/contact", Default: new("nobody")},
		{Name: "SIZE", Variable: "size"},
		{Name: "POOL", Variable: "pool"},
	}
	in := input(addon, nil)
	in.Cluster.Labels = map[string]string{"example.com/team": "a"}
	in.Cluster.Variables = map[string][]byte{"size": []byte("3"), "pool": []byte(`{"zones":["a"]}`)}
	return in
}

func TestRender_takesValuesFromTheCluster(t *testing.T) {
	g := NewWithT(t)
	in := withClusterValues(`{"team": "${TEAM}-${CONTACT}", "size": "${json:SIZE}", "pool": "${json:POOL}"}`)
	spec, _, err := in.valuesOf()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(spec).To(Equal(map[string]any{"team": "a-nobody", "size": int64(3), "pool": map[string]any{"zones": []any{"a"}}}))

	delete(in.Cluster.Labels, "example.com/team")
	_, err = Render(in)
	g.Expect(err).To(MatchError("MissingKey: Add-on karpenter: clusterValues TEAM: the Cluster has no label example.com/team: add it, or a default"))
}

func TestRender_mergesOverridesInOrder(t *testing.T) {
	selecting := func(key, value, values string) addonsv1.ValuesOverride {
		return addonsv1.ValuesOverride{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}, Values: infrav1.Value{Raw: []byte(values)}}
	}
	g := NewWithT(t)
	in := withClusterValues(`{"replicas": 1, "settings": {"zones": ["a", "b"], "log": "info"}}`)
	in.Addon.Spec.Helm.Overrides = []addonsv1.ValuesOverride{
		selecting("example.com/team", "a", `{"replicas": 2, "settings": {"log": "debug-${TEAM}"}}`),
		selecting("example.com/team", "b", `{"replicas": 9}`),
		selecting(addonsv1.ClusterLabel, in.Cluster.Name, `{"replicas": 3, "settings": {"zones": ["c"]}}`),
	}
	values, _, err := in.valuesOf()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(values).To(Equal(map[string]any{"replicas": float64(3), "settings": map[string]any{"zones": []any{"c"}, "log": "debug-a"}}))

	in.Addon.Spec.Helm.Values = nil
	values, _, err = in.valuesOf()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(values).To(HaveKeyWithValue("replicas", float64(3)), "an add-on without values has those of its overrides")
}

// valuesOf returns the values of the chart.
func (in *Input) valuesOf() (any, map[string]string, error) {
	values, err := in.placeholders()
	if err != nil {
		return nil, nil, err
	}
	resolved, err := in.chartValues(values, &budget{})
	return resolved, values, err
}

// A rendering is reused until one of them changes.
func TestClusterInputs_changeWithWhatTheAddonUses(t *testing.T) {
	g := NewWithT(t)
	in := withClusterValues(`{}`)
	in.Addon.Spec.Helm.Overrides = []addonsv1.ValuesOverride{{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}}
	before := ClusterInputs(in.Addon, in.Cluster)
	in.Cluster.Labels["other"], in.Cluster.Annotations = "x", map[string]string{"other": "x"}
	g.Expect(ClusterInputs(in.Addon, in.Cluster)).To(Equal(before))
	for name, change := range map[string]func(){
		"label":      func() { in.Cluster.Labels["example.com/team"] = "b" },
		"annotation": func() { in.Cluster.Annotations["example.com/contact"] = "c" },
		"variable":   func() { in.Cluster.Variables["size"] = []byte("4") },
		"override":   func() { in.Cluster.Labels["tier"] = "gold" },
	} {
		change()
		after := ClusterInputs(in.Addon, in.Cluster)
		g.Expect(after).NotTo(Equal(before), name)
		before = after
	}
}
