package manifest_test

import (
	"testing"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// Users write manifests of add-ons.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		"", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "a: &a [*a]\n", "a: &a {b: c}\nd: {<<: *a}\n", "apiVersion: v1\nkind: List\nitems: [{}]\n", "---\n---\n", "[",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := manifest.Parse(text)
		if err != nil {
			return
		}
		for _, obj := range objects {
			if obj.GetKind() == "" {
				t.Fatalf("%q has an object without a kind", text)
			}
		}
	})
}
