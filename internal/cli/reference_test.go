package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

func TestReference_isCurrent(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	committed, err := os.ReadFile(filepath.Join(root, "docs", "reference", "captctl.md"))
	g.Expect(err).NotTo(HaveOccurred())
	out, problem, code := captctl(t, "", "reference")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring("## captctl state move\n"))
	g.Expect(out).NotTo(ContainSubstring(os.Getenv("HOME")+"/"), "a default depends on the machine")
	g.Expect(out == string(committed)).To(BeTrue(), "docs/reference/captctl.md is not current: run `make generate`")
}
