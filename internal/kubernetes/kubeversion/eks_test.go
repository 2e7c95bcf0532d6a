package kubeversion_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func TestEKSWarning(t *testing.T) {
	for name, test := range map[string]struct{ version, date, want string }{
		"standard support":           {"v1.35.0", "2026-11-16", ""},
		"the last day of it":         {"v1.33.4", "2026-07-29", ""},
		"the day after":              {"v1.33.4", "2026-07-30", "Kubernetes 1.33 is in extended support of EKS, at a higher price, since 2026-07-29, and until 2027-07-29: set a later version, such as v1.35.0"},
		"the last day of extended":   {"1.33", "2027-07-29", "until 2027-07-29"},
		"no support":                 {"1.33", "2027-07-30", "EKS ended its support of Kubernetes 1.33 on 2027-07-29 and upgrades such clusters itself"},
		"older than the calendar":    {"v1.20.0", "2026-11-16", "EKS no longer offers Kubernetes 1.20"},
		"newer than the calendar":    {"v1.99.0", "2030-01-01", ""},
		"text that is not a version": {"latest", "2026-11-16", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now, err := time.Parse(time.DateOnly, test.date)
			g.Expect(err).NotTo(HaveOccurred())
			got := kubeversion.EKSWarning(test.version, now.Add(23*time.Hour))
			if test.want == "" {
				g.Expect(got).To(BeEmpty())
			} else {
				g.Expect(got).To(ContainSubstring(test.want))
			}
		})
	}
}

// Flavors, examples and the manuals create EKS clusters with one version.
func TestEKSDefault_isTheOnlyVersionOfEKS(t *testing.T) {
	g := NewWithT(t)
	const root = "../../.."
	// The patch version distinguishes versions of EKS, v1.N.0, from others.
	version := regexp.MustCompile(`v1\.\d+\.0\b`)
	local := regexp.MustCompile(`local|quickstart`)
	files := 0
	for _, dir := range []string{"flavors", "examples"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || local.MatchString(path) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range version.FindAllString(string(text), -1) {
				files++
				g.Expect(found).To(Equal(kubeversion.EKSDefault), path)
			}
			return nil
		})).To(Succeed())
	}
	g.Expect(files).To(BeNumerically(">=", 9))
}
