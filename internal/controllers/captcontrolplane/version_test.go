package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestObservedVersion_hasNoSuffix(t *testing.T) {
	tests := []struct {
		info apiversion.Info
		want string
	}{
		{apiversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.5-eks-113cf36"}, "v1.33.5"},
		{apiversion.Info{Major: "1", Minor: "33+", GitVersion: "v1.33.5+k3s1"}, "v1.33.5"},
		{apiversion.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", EmulationMajor: "1", EmulationMinor: "36"}, "v1.36.0"},
		{apiversion.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", EmulationMajor: "1", EmulationMinor: "37"}, "v1.37.1"},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(observedVersion(&tt.info)).To(Equal(tt.want), tt.info.GitVersion)
	}
}

func TestReportedVersion_isNeverBelowThePatchOfTheSpec(t *testing.T) {
	tests := []struct{ observed, spec, reported, want string }{
		{"v1.33.5", "v1.33.0", "", "v1.33.5"},
		{"v1.33.5", "v1.33.9", "", "v1.33.9"},
		{"v1.33.5", "v1.33.9-eks-1", "", "v1.33.9"},
		{"v1.33.5", "v1.34.0", "", "v1.33.5"},
		{"v1.33.5", "v1.34.0", "v1.33.9", "v1.33.9"},
		{"v1.34.1", "v1.34.0", "v1.33.9", "v1.34.1"},
		{"v1.33.5", "nonsense", "", "v1.33.5"},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(reportedVersion(tt.observed, tt.spec, tt.reported)).To(Equal(tt.want), "%+v", tt)
	}
}
