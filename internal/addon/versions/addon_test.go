package versions_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/addon/versions"
)

func TestInRange(t *testing.T) {
	for name, test := range map[string]struct {
		limits, version string
		in              bool
	}{
		"inside":            {">=1.29 <1.38", "v1.37.1", true},
		"below":             {">=1.29 <1.38", "v1.28.9", false},
		"above":             {">=1.29 <1.38", "v1.38.0", false},
		"a whole minor":     {"<=1.37", "v1.37.9", true},
		"exactly":           {"=1.36", "v1.36.2", true},
		"beyond a minor":    {">1.36", "v1.36.2", false},
		"a patch":           {">=1.36.2", "v1.36.1", false},
		"no version at all": {">=1.29", "latest", false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(versions.InRange(test.limits, test.version)).To(Equal(test.in))
		})
	}
}
