package v1beta1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCAPTAddon_Selects(t *testing.T) {
	expression := func(operator metav1.LabelSelectorOperator) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: operator}}}
	}
	for _, test := range []struct {
		name     string
		selector metav1.LabelSelector
		labels   map[string]string
		want     bool
	}{
		{"an empty selector matches every cluster", metav1.LabelSelector{}, nil, true},
		{"the label has the value", metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, map[string]string{"env": "prod", "a": "b"}, true},
		{"the label has another value", metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, map[string]string{"env": "dev"}, false},
		{"the cluster has no labels", metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, nil, false},
		{"an expression matches", expression(metav1.LabelSelectorOpExists), map[string]string{"env": ""}, true},
		{"an expression does not match", expression(metav1.LabelSelectorOpDoesNotExist), map[string]string{"env": ""}, false},
		{"an invalid selector matches no cluster", expression("Is"), map[string]string{"env": ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			addon := &CAPTAddon{Spec: CAPTAddonSpec{ClusterSelector: test.selector}}
			if got := addon.Selects(test.labels); got != test.want {
				t.Errorf("Selects(%v) = %t", test.labels, got)
			}
		})
	}
}

func TestCAPTAddon_StatusIn(t *testing.T) {
	addon := &CAPTAddon{Status: CAPTAddonStatus{Clusters: []ClusterAddonStatus{{Name: "a"}, {Name: "b"}}}}
	if got, want := addon.StatusIn("b"), &addon.Status.Clusters[1]; got != want {
		t.Errorf("StatusIn returns %p, not the entry of the status at %p", got, want)
	}
	if got := addon.StatusIn("c"); got != nil {
		t.Errorf("StatusIn returns %v for a cluster without the add-on", got)
	}
}
