package captaddon

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

func TestConcerns(t *testing.T) {
	enabled := metav1.LabelSelector{MatchLabels: map[string]string{"fluxcd.io/enabled": "true"}}
	other := metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	broken := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}
	for name, test := range map[string]struct {
		selector  metav1.LabelSelector
		installed string
		want      bool
	}{
		"selected":          {enabled, "", true},
		"not selected":      {other, "b", false},
		"installed":         {other, "a", true},
		"both":              {enabled, "a", true},
		"broken selector":   {broken, "", false},
		"broken, installed": {broken, "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			addon := newAddon("flux")
			addon.Spec.ClusterSelector = test.selector
			if test.installed != "" {
				addon = withStatus(addon, addonsv1.ClusterAddonStatus{Name: test.installed})
			}
			NewWithT(t).Expect(concerns(addon, newCluster("a"))).To(Equal(test.want))
		})
	}
}

func TestUsesSource(t *testing.T) {
	addon := withStatus(newAddon("flux"), addonsv1.ClusterAddonStatus{Name: "a"}, addonsv1.ClusterAddonStatus{Name: "b"})
	addon.Spec.Manifests = []addonsv1.ManifestSource{
		{Name: "inline", Inline: "x"},
		{Name: "m", ConfigMapRef: &infrav1.LocalReference{Name: "manifests"}},
		{Name: "s", SecretRef: &infrav1.LocalReference{Name: "secrets"}},
	}
	addon.Spec.Helm = &addonsv1.HelmRelease{Chart: addonsv1.ChartSource{
		SecretRef: &infrav1.LocalReference{Name: "registry"}, CertSecretRef: &infrav1.LocalReference{Name: "ca"}, ProxySecretRef: &infrav1.LocalReference{Name: "proxy"},
	}}
	clusters := map[string]render.Cluster{"b": {Name: "b", Workspace: "b-1a2b3c4d"}}
	for name, want := range map[string]bool{
		"registry": true, "ca": true, "proxy": true,
		"manifests": true, "secrets": true, "a-eks-connection": true, "b-1a2b3c4d-eks-connection": true, "b-eks-connection": false,
		"c-eks-connection": false, "a": false, "inline": false,
	} {
		NewWithT(t).Expect(usesSource(addon, name, clusters)).To(Equal(want), name)
	}
	addon.Spec.Connection = &addonsv1.ConnectionSource{SecretName: "${NO_SUCH}"}
	NewWithT(t).Expect(usesSource(addon, "${NO_SUCH}", clusters)).To(BeFalse())
}
