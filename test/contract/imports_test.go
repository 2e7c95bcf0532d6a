package contract

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// public are the packages that Cluster API offers to providers.
var public = []string{"api/", "util", "controllers/clustercache", "controllers/remote", "controllers/external", "errors", "feature"}

// usesOnlyPublicPackages checks which packages of Cluster API the provider's programs
// import: its reconcilers and webhooks are not part of the contract. captctl is a tool
// like clusterctl, and may use its libraries.
func usesOnlyPublicPackages(c *check) {
	listed, err := imports()
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(listed).To(ContainSubstring("sigs.k8s.io/cluster-api/api/"), "the imports are listed")
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		for _, imported := range words[1:] {
			path, ours := strings.CutPrefix(imported, "sigs.k8s.io/cluster-api/")
			c.Expect(!ours || slices.ContainsFunc(public, func(prefix string) bool { return strings.HasPrefix(path, prefix) })).
				To(BeTrue(), "%s imports %s", words[0], imported)
		}
	}
}

// imports returns the packages of the provider's programs and their imports.
var imports = sync.OnceValues(func() (string, error) {
	root, err := testenv.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/manager", "./cmd/runner", "github.com/appthrust/capt/api/...")
	cmd.Dir = root
	out, err := cmd.Output()
	var ours strings.Builder
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "github.com/appthrust/capt/") {
			ours.WriteString(line)
		}
	}
	return ours.String(), err
})

// namesNothingInternal searches the source code for labels and annotations that are
// internal to Cluster API.
func namesNothingInternal(c *check) {
	root, err := testenv.Root()
	c.Expect(err).NotTo(HaveOccurred())
	files := 0
	for _, dir := range []string{"api", "cmd", "internal"} {
		c.Expect(filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			c.Expect(string(text)).NotTo(ContainSubstring("internal.cluster.x-k8s.io"), path)
			files++
			return err
		})).To(Succeed())
	}
	c.Expect(files).To(BeNumerically(">", 100), "the source code was read")
}

// servesNoExtension holds when CAPT implements no runtime hooks.
func servesNoExtension(c *check) {
	listed, err := imports()
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(listed).To(ContainSubstring("sigs.k8s.io/cluster-api/api/core"))
	c.Expect(listed).NotTo(ContainSubstring("sigs.k8s.io/cluster-api/api/runtime"))
	c.Expect(listed).NotTo(ContainSubstring("sigs.k8s.io/cluster-api/exp/runtime"))
}
