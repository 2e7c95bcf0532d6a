package versions_test

import (
	"testing"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/versions"
)

func TestInRange(t *testing.T) {
	for name, test := range map[string]struct {
		limits, version string
		in              bool
	}{
		"inside":                 {">=1.29 <1.38", "v1.37.1", true},
		"at the lower limit":     {">=1.29 <1.38", "v1.29.0", true},
		"below":                  {">=1.29 <1.38", "v1.28.9", false},
		"above":                  {">=1.29 <1.38", "v1.38.0", false},
		"patch of <= minor":      {"<=1.37", "v1.37.9", true},
		"above <= minor":         {"<=1.37", "v1.38.0", false},
		"patch of = minor":       {"=1.36", "v1.36.2", true},
		"another minor than =":   {"=1.36", "v1.35.2", false},
		"patch of > minor":       {">1.36", "v1.36.2", false},
		"above > minor":          {">1.36", "v1.37.0", true},
		"patch of < minor":       {"<1.36", "v1.36.0", false},
		"below >= patch":         {">=1.36.2", "v1.36.1", false},
		"at >= patch":            {">=1.36.2", "v1.36.2", true},
		"at > patch":             {">1.36.2", "v1.36.2", false},
		"above > patch":          {">1.36.2", "v1.36.3", true},
		"at <= patch":            {"<=1.36.2", "v1.36.2", true},
		"above <= patch":         {"<=1.36.2", "v1.36.3", false},
		"at < patch":             {"<1.36.2", "v1.36.2", false},
		"another patch than =":   {"=1.36.2", "v1.36.1", false},
		"same minor, next major": {"=1.36", "v2.36.0", false},
		"suffix of a provider":   {">=1.34.2", "v1.34.2-eks-1a2b3c4", true},
		"no limits":              {"", "v1.34.2", true},
		"not a version":          {">=1.29", "latest", false},
		"not a limit":            {">=x", "v1.29.0", false},
	} {
		NewWithT(t).Expect(versions.InRange(test.limits, test.version)).To(Equal(test.in), name)
	}
}

func TestCheckAddon_checksRangeAndMatrix(t *testing.T) {
	helm := func(version string) *addonsv1.HelmRelease {
		return &addonsv1.HelmRelease{Chart: addonsv1.ChartSource{Version: version}}
	}
	for name, test := range map[string]struct {
		spec addonsv1.CAPTAddonSpec
		want string
	}{
		"no versions":    {addonsv1.CAPTAddonSpec{Helm: helm("1.0.8")}, ""},
		"in range":       {addonsv1.CAPTAddonSpec{Versions: &addonsv1.AddonVersions{Kubernetes: ">=1.30"}}, ""},
		"out of range":   {addonsv1.CAPTAddonSpec{Versions: &addonsv1.AddonVersions{Kubernetes: "<1.30"}}, "it supports Kubernetes <1.30, not v1.34.1"},
		"in matrix":      {addonsv1.CAPTAddonSpec{Helm: helm("1.14.1"), Versions: &addonsv1.AddonVersions{Matrix: "karpenter"}}, ""},
		"not in matrix":  {addonsv1.CAPTAddonSpec{Helm: helm("1.0.8"), Versions: &addonsv1.AddonVersions{Matrix: "karpenter"}}, "Karpenter 1.0.8 supports Kubernetes 1.25 to 1.31, not 1.34"},
		"manifests":      {addonsv1.CAPTAddonSpec{Versions: &addonsv1.AddonVersions{Matrix: "karpenter", Version: "1.0.8"}}, "Karpenter 1.0.8 supports Kubernetes 1.25 to 1.31, not 1.34"},
		"chart first":    {addonsv1.CAPTAddonSpec{Helm: helm("1.14.1"), Versions: &addonsv1.AddonVersions{Matrix: "karpenter", Version: "1.0.8"}}, ""},
		"no version":     {addonsv1.CAPTAddonSpec{Versions: &addonsv1.AddonVersions{Matrix: "karpenter"}}, ""},
		"range excludes": {addonsv1.CAPTAddonSpec{Helm: helm("1.14.1"), Versions: &addonsv1.AddonVersions{Matrix: "karpenter", Kubernetes: ">1.34"}}, "it supports Kubernetes >1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			err := builtIn(t).CheckAddon(&addonsv1.CAPTAddon{Spec: test.spec}, "v1.34.1")
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(HavePrefix(test.want)))
		})
	}
	NewWithT(t).Expect(versions.AddonVersion(&addonsv1.CAPTAddon{})).To(BeEmpty())
}
