package host

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestGoMemoryLimit_leavesMemoryForTheProgramAndTheKernel(t *testing.T) {
	for name, test := range map[string]struct{ container, want uint64 }{
		"manifests": {128 << 20, 87_241_516},
		"large":     {1 << 30, 932_813_206},
		"small":     {32 << 20, 15_099_493},
		"none":      {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(GoMemoryLimit(test.container)).To(BeNumerically("~", test.want, 1<<10))
			g.Expect(GoMemoryLimit(test.container)).To(BeNumerically("<=", test.container))
		})
	}
}
