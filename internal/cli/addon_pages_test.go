package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// installCommand matches the commands of the documentation that install built-in add-ons.
// Those with a variable of the shell or a file of the reader are not matched.
var installCommand = regexp.MustCompile(`(?m)^(?:bin/)?captctl (addon install(?: [a-z][a-z-]*| --dry-run)+)(?: +#.*)?$`)

// The commands run one after the other on a real API server, which validates the add-ons.
func TestAddonInstall_documentedCommands(t *testing.T) {
	h := newHarness(t)
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	h.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		h.Expect(err).NotTo(HaveOccurred())
		for _, match := range installCommand.FindAllStringSubmatch(string(text), -1) {
			found = append(found, filepath.Base(page))
			args := strings.Fields(match[1])
			a := h.run(append(args, "--from", filepath.Join(root, "addons"))...)
			h.Expect(a.code).To(Equal(0), "%s: captctl %s: %s", page, match[1], a.err)
			if slices.Contains(args, "--dry-run") {
				continue
			}
			for _, name := range args[2:] {
				h.Expect(env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &addonsv1.CAPTAddon{})).To(Succeed(), "%s: %s", page, name)
			}
		}
	}
	h.Expect(found).To(ContainElements("addons.md", "aws.md", "clusters.md", "install.md", "kind.md", "operations.md"), "the commands of these pages are found")
}
