package manifest_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

func TestParse_returnsObjectsInTheirOrder(t *testing.T) {
	g := NewWithT(t)
	objects, err := manifest.Parse([]byte(`---
# Only a comment.
---
apiVersion: v1
kind: A
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: B, metadata: {name: b}}
- {apiVersion: v1, kind: C, metadata: {name: c}}
---
{"apiVersion": "v1", "kind": "D", "metadata": {"name": "d"}, "data": {"n": 12345678901}}
`))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetKind()+"/"+obj.GetName())
	}
	g.Expect(names).To(Equal([]string{"A/a", "B/b", "C/c", "D/d"}))
	g.Expect(objects[3].Object["data"]).To(HaveKeyWithValue("n", int64(12345678901)), "integers stay integers")
}

func TestParse_namesTheDocumentAndQuotesNothing(t *testing.T) {
	const good = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n"
	for text, want := range map[string]string{
		good + "s3cret: [":                                "document 2: the YAML is invalid, see line 1",
		good + "a: 1\n\tb: s3cret\n":                      "document 2: the YAML is invalid, see line 2",
		good + "a: *s3cret":                               "document 2: the YAML is invalid",
		good + "- s3cret":                                 "document 2 is not the YAML of a Kubernetes object",
		good + "kind: A\nmetadata: {name: s3cret}":        "document 2: apiVersion, kind or metadata.name is missing",
		good + "apiVersion: v1\nmetadata: {name: s3cret}": "document 2: apiVersion, kind or metadata.name is missing",
		good + "apiVersion: v1\nkind: s3cret":             "document 2: apiVersion, kind or metadata.name is missing",
	} {
		NewWithT(t).Expect(manifest.Parse([]byte(text))).Error().To(MatchError(want))
	}
}
