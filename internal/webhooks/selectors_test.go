package webhooks

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestDefaultClusterLabel_neverBreaksTheSelector(t *testing.T) {
	labelled := map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "production"}
	absent := metav1.LabelSelectorRequirement{Key: clusterv1.ClusterNameLabel, Operator: metav1.LabelSelectorOpDoesNotExist}
	tests := map[string]struct {
		cluster  string
		selector metav1.LabelSelector
		labels   map[string]string
		want     map[string]string
	}{
		"sets the label": {
			cluster: "production", selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			labels: map[string]string{"pool": "a"}, want: labelled,
		},
		"sets a label that the selector requires": {
			cluster: "production", selector: metav1.LabelSelector{MatchLabels: labelled},
			labels: map[string]string{"pool": "a"}, want: labelled,
		},
		"keeps another value, which is rejected later": {
			cluster: "production", selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			labels: map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "x"},
			want:   map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "x"},
		},
		"sets no label that the selector forbids": {
			cluster: "production", selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{absent}},
			labels: map[string]string{"pool": "a"}, want: map[string]string{"pool": "a"},
		},
		"sets no label with an invalid selector": {
			cluster: "production", selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Operator: "?"}}},
			labels: map[string]string{"pool": "a"}, want: map[string]string{"pool": "a"},
		},
		"sets no label without a cluster": {
			selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			labels:   map[string]string{"pool": "a"}, want: map[string]string{"pool": "a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			meta, template := metav1.ObjectMeta{}, clusterv1.ObjectMeta{Labels: tt.labels}
			defaultClusterLabel(tt.cluster, &meta, &template, &tt.selector)
			NewWithT(t).Expect(template.Labels).To(Equal(tt.want))
		})
	}
}
