package validate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/webhooks"
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

// forEachInvalid calls test for every manifest that is rejected at creation. Those that
// are rejected only as an update need a cluster.
func forEachInvalid(t *testing.T, test func(t *testing.T, manifest []byte, want []string)) {
	t.Helper()
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
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+"/"+c.Name, func(t *testing.T) { test(t, manifest, c.Want) })
		}
	}
	g.Expect(total).To(BeNumerically(">=", 100))
}

func check(t testing.TB, text string, options validate.Options) []validate.Finding {
	t.Helper()
	objects, findings := validate.Parse("given.yaml", []byte(text), true)
	checked, err := validate.Check(t.Context(), objects, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(findings, checked...)
}

func TestCheck_rejectsInvalidManifests(t *testing.T) {
	forEachInvalid(t, func(t *testing.T, manifest []byte, want []string) {
		g := NewWithT(t)
		var all strings.Builder
		for _, f := range check(t, string(manifest), validate.Options{}) {
			if f.Severity == validate.Error {
				fmt.Fprintf(&all, "%s: %s\n", f.Path, f.Message)
			}
		}
		for _, w := range want {
			g.Expect(all.String()).To(ContainSubstring(w))
		}
	})
}

// The messages are those of the API server.
func TestCheck_reportsTheErrorsOfTheAPIServer(t *testing.T) {
	env := testenv.New(t, testenv.WithWebhooks(webhooks.Setup))
	namespace := env.Namespace(t)
	forEachInvalid(t, func(t *testing.T, manifest []byte, _ []string) {
		g := NewWithT(t)
		objects, _ := validate.Parse("given.yaml", manifest, true)
		g.Expect(objects).To(HaveLen(1))
		sent := objects[0].DeepCopy()
		sent.SetNamespace(namespace)
		err := env.Client.Create(context.Background(), sent, client.FieldValidation("Strict"), client.DryRunAll)
		g.Expect(err).To(HaveOccurred())

		findings := check(t, string(manifest), validate.Options{Namespace: namespace})

		var messages []string
		for _, f := range findings {
			messages = append(messages, f.Path+": "+f.Message)
		}
		for _, cause := range causes(err) {
			g.Expect(messages).To(ContainElement(ContainSubstring(cause)))
		}
	})
}

// causes returns the causes of an error of the API server.
func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return []string{err.Error()}
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		// An unknown field has no cause.
		if _, field, found := strings.Cut(err.Error(), "strict decoding error: "); found {
			return []string{field}
		}
		return []string{err.Error()}
	}
	var all []string
	for _, c := range details.Causes {
		// That other rules were not evaluated is not a finding, and the scale
		// subresource repeats the errors of its field.
		if c.Field == "<nil>" || strings.HasPrefix(c.Field, ".") || strings.Contains(c.Message, "some validation rules were not checked") {
			continue
		}
		all = append(all, c.Field+": "+c.Message)
	}
	return all
}
