package webhooks

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCheckVersion_acceptsSemanticVersions(t *testing.T) {
	tests := map[string]bool{
		"v1.33.0":           true,
		"1.33.0":            true,
		"v1.33":             true,
		"v1.33.0-eks-1":     true,
		"v1.33.0+build.1":   true,
		"v1.33-eks.1":       true,
		"v1.33.0-a+b.c":     true,
		"v1.033.0":          false,
		"v01.33.0":          false,
		"v1.33.0+a+b":       false,
		"v1":                false,
		"latest":            false,
		"":                  false,
		"v1.33.0.1":         false,
		"v1.33.0-":          false,
		"v1.33.0-eks..hash": false,
	}
	for version, ok := range tests {
		NewWithT(t).Expect(checkVersion(field.NewPath("spec", "version"), version) == nil).To(Equal(ok), version)
	}
}

func TestCheckDowngrade_rejectsOnlyLowerVersions(t *testing.T) {
	tests := []struct {
		current, desired string
		ok               bool
	}{
		{"v1.33.0", "v1.33.0", true},
		{"v1.33.0", "v1.34.0", true},
		{"v1.33.0", "v1.36", true},
		{"v1.33.5", "v1.33", true},
		{"v1.33", "v1.33.5", true},
		{"", "v1.33.0", true},
		{"nonsense", "v1.33.0", true},
		{"v1.33.0", "nonsense", true},
		{"v1.33.0", "v1.32.9", false},
		{"v1.33", "v1.32", false},
		{"v1.33.5", "v1.33.4", false},
		{"v2.0.0", "v1.40.0", false},
		{"v1.33.0", "v1.33.0-rc.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.current+" to "+tt.desired, func(t *testing.T) {
			errs := checkDowngrade(field.NewPath("spec", "version"), tt.current, tt.desired)
			NewWithT(t).Expect(len(errs) == 0).To(Equal(tt.ok), "%v", errs)
		})
	}
}

func TestWithPrefix_addsAMissingPrefix(t *testing.T) {
	g := NewWithT(t)
	g.Expect(withPrefix("1.33.0")).To(Equal("v1.33.0"))
	g.Expect(withPrefix("v1.33.0")).To(Equal("v1.33.0"))
	g.Expect(withPrefix("latest")).To(Equal("latest"))
	g.Expect(withPrefix("")).To(BeEmpty())
}
