package tenancy

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

var namedTest = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z_0-9]+)`")

// Each test that docs/security.md names exists.
func TestSecurityPage_namesTests(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	g.Expect(err).NotTo(HaveOccurred())
	named := namedTest.FindAllSubmatch(page, -1)
	g.Expect(len(named)).To(BeNumerically(">", 20))
	for _, match := range named {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(string(match[1])), "*_test.go"))
		g.Expect(err).NotTo(HaveOccurred())
		declaration := regexp.MustCompile(`(?m)^func ` + string(match[2]) + `\(`)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			found = found || declaration.Match(text)
		}
		g.Expect(found).To(BeTrue(), "%s has no %s", match[1], match[2])
	}
}
