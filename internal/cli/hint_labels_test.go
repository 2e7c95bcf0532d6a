package cli

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// A hint is a command of a shell, or there is none.
func TestLabelHint_isACommand(t *testing.T) {
	o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
	*o.Kube.Context = "prod"
	expression := metav1.LabelSelectorRequirement{Key: "example.com/team", Operator: metav1.LabelSelectorOpIn, Values: []string{"checkout", "search"}}
	for name, tc := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"one label":     {metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, ": label one with kubectl --context prod label cluster NAME a=b"},
		"two labels":    {metav1.LabelSelector{MatchLabels: map[string]string{"c": "d", "a": "b"}}, ": label one with kubectl --context prod label cluster NAME a=b c=d"},
		"an expression": {metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{expression}}, ""},
		"both":          {metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression}}, ""},
		"nothing":       {metav1.LabelSelector{}, ""},
	} {
		NewWithT(t).Expect(o.labelHint(&tc.selector)).To(Equal(tc.want), name)
	}
}
