package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestNextMinor_stepsOneAtATime(t *testing.T) {
	at := func(m uint) *minor { return &minor{1, m} }
	tests := []struct {
		name    string
		target  minor
		asked   *minor
		reached bool
		want    minor
	}{
		{"a new control plane begins at the target", minor{1, 33}, nil, false, minor{1, 33}},
		{"nothing to do", minor{1, 33}, at(33), true, minor{1, 33}},
		{"one step", minor{1, 33}, at(32), true, minor{1, 33}},
		{"one of several steps", minor{1, 34}, at(31), true, minor{1, 32}},
		{"not before the last step is reached", minor{1, 34}, at(31), false, minor{1, 31}},
		{"never down", minor{1, 31}, at(33), true, minor{1, 33}},
		{"another major is one step", minor{2, 0}, at(40), true, minor{2, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(nextMinor(tt.target, tt.asked, tt.reached)).To(Equal(tt.want))
		})
	}
}

func TestMinorOf_readsWhatPeopleWrite(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"v1.33.0", "1.33", "v1.33", "1.33.5-eks-1-33-4", "v1.33.1+k3s1"} {
		m, err := minorOf(text)
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(m.String()).To(Equal("1.33"), text)
	}
	_, err := minorOf("latest")
	g.Expect(err).To(HaveOccurred())
}

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

func TestReportedVersion_isNeverBelowTheWantedPatchOfItsMinor(t *testing.T) {
	tests := []struct{ observed, wanted, told, want string }{
		{"v1.33.5", "v1.33.0", "", "v1.33.5"},
		{"v1.33.5", "v1.33.9", "", "v1.33.9"},
		{"v1.33.5", "v1.33.9-eks-1", "", "v1.33.9"},
		{"v1.33.5", "v1.34.0", "", "v1.33.5"},
		{"v1.33.5", "v1.34.0", "v1.33.9", "v1.33.9"},
		{"v1.34.1", "v1.34.0", "v1.33.9", "v1.34.1"},
		{"v1.33.5", "nonsense", "", "v1.33.5"},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(reportedVersion(tt.observed, tt.wanted, tt.told)).To(Equal(tt.want), "%+v", tt)
	}
}
