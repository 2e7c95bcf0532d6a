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
		"61 days before its end":     {"v1.34.1", "2026-10-02", ""},
		"60 days before its end":     {"v1.34.1", "2026-10-03", "EKS ends the standard support of Kubernetes 1.34 on 2026-12-02: the control plane then costs 0.60 instead of 0.10 USD per hour, until 2027-12-02. Set a later version, such as v1.35.0"},
		"the day before its end":     {"v1.33.4", "2026-07-28", "EKS ends the standard support of Kubernetes 1.33 on 2026-07-29"},
		"the day of its end":         {"v1.33.4", "2026-07-29", "Kubernetes 1.33 is in extended support of EKS since 2026-07-29, and until 2027-07-29: the control plane costs 0.60 instead of 0.10 USD per hour. Set a later version, such as v1.35.0"},
		"the last day of extended":   {"1.33", "2027-07-28", "until 2027-07-29"},
		"no support":                 {"1.33", "2027-07-29", "EKS ended its support of Kubernetes 1.33 on 2027-07-29 and upgrades such clusters itself"},
		"older than the calendar":    {"v1.20.0", "2026-11-16", "EKS no longer offers Kubernetes 1.20"},
		"newer than the calendar":    {"v1.99.0", "2030-01-01", ""},
		"text that is not a version": {"latest", "2026-11-16", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now, err := time.Parse(time.DateOnly, test.date)
			g.Expect(err).NotTo(HaveOccurred())
			got := kubeversion.EKSWarning(test.version, now)
			if test.want == "" {
				g.Expect(got).To(BeEmpty())
			} else {
				g.Expect(got).To(ContainSubstring(test.want))
			}
		})
	}
}

func TestEKSStandardSupportEnd(t *testing.T) {
	g := NewWithT(t)
	g.Expect(kubeversion.EKSStandardSupportEnd("v1.34.3-eks-1a2b3c4").Format(time.DateOnly)).To(Equal("2026-12-02"))
	for _, version := range []string{"v1.99.0", "", "latest"} {
		g.Expect(kubeversion.EKSStandardSupportEnd(version)).To(BeZero(), version)
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
