package validate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/testenv"
)

func root(t testing.TB) string {
	t.Helper()
	dir, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return dir
}

func TestCheck_acceptsTheManifestsOfTheRepository(t *testing.T) {
	g := NewWithT(t)
	var paths []string
	for _, pattern := range []string{"examples/*.yaml", "templates/*.yaml", "clusterclasses/*.yaml", "policies/*.yaml", "test/api/testdata/good/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root(t), pattern))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).NotTo(BeEmpty(), pattern)
		paths = append(paths, found...)
	}
	objects, findings, err := validate.Read(paths, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(objects)).To(BeNumerically(">", 50))
	checked, err := validate.Check(t.Context(), objects, validate.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range append(findings, checked...) {
		g.Expect(f.Severity).To(Equal(validate.Warning), "%s", f)
	}
}

// invalidManifests are a valid object and changes that make it invalid.
type invalidManifests struct {
	Object map[string]any `json:"object"`
	Cases  []struct {
		Name   string         `json:"name"`
		Change map[string]any `json:"change"`
		Update map[string]any `json:"update"`
		Want   []string       `json:"want"`
	} `json:"cases"`
}

func check(t testing.TB, text string, options validate.Options) []validate.Finding {
	t.Helper()
	objects, findings := validate.Parse("given.yaml", []byte(text), true)
	checked, err := validate.Check(t.Context(), objects, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(findings, checked...)
}

// The messages are those of the API server: test/api expects the same. Those that reject only
// updates need a cluster.
func TestCheck_rejectsInvalidManifests(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root(t), "test/api/testdata/bad/*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	total := 0
	for _, file := range files {
		var r invalidManifests
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(yaml.Unmarshal(text, &r)).To(Succeed())
		for _, c := range r.Cases {
			if c.Update != nil {
				continue
			}
			total++
			base, err := json.Marshal(r.Object)
			g.Expect(err).NotTo(HaveOccurred())
			change, err := json.Marshal(c.Change)
			g.Expect(err).NotTo(HaveOccurred())
			manifest, err := jsonpatch.MergePatch(base, change)
			g.Expect(err).NotTo(HaveOccurred())
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+"/"+c.Name, func(t *testing.T) {
				var all strings.Builder
				for _, f := range check(t, string(manifest), validate.Options{}) {
					if f.Severity == validate.Error {
						fmt.Fprintf(&all, "%s: %s\n", f.Path, f.Message)
					}
				}
				for _, w := range c.Want {
					NewWithT(t).Expect(all.String()).To(ContainSubstring(w))
				}
			})
		}
	}
	g.Expect(total).To(BeNumerically(">=", 100))
}
